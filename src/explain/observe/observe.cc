// Measures the vectors that sublayers pass on.
#include "explain/observe/observe.h"

#include <cmath>
#include <utility>

namespace qkv::inline explaining {

std::string_view part_of_model(std::string_view name) {
  using Pair = std::pair<std::string_view, std::string_view>;
  if (name == "encoder.output" || name == "decoder.output") return "recurrent";
  static constexpr Pair kParts[] = {{"embedding", "embedding"},       {"positions", "positions"},
                                    {"embedding_norm", "norm"},       {"output", "attention"},
                                    {"feed_forward", "feed_forward"}, {"norm", "norm"},
                                    {"attention_norm", "norm"},       {"self_norm", "norm"},
                                    {"memory_norm", "norm"},          {"feed_forward_norm", "norm"}};
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (const auto& [ending, part] : kParts) {
    if (last == ending) return part;
  }
  return "";
}

void add_sublayer(std::vector<SublayerVectors>& sublayers, const std::vector<AttentionSequence>& sequences,
                  std::string_view name, const TensorView& value) {
  const std::string_view part = part_of_model(name);
  if (part.empty() || value.rank() != 2) return;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& sequence = sequences[s];
    if (!sequence.scope || !name.starts_with(*sequence.scope)) continue;
    if (value.size(0) != std::ssize(sequence.tokens)) continue;
    SublayerVectors& sublayer = sublayers.emplace_back(
        SublayerVectors{.name = std::string(name), .part = std::string(part), .sequence = s, .size = value.size(1)});
    const Tensor exact = convert(value, Dtype::f64);
    const double* number = exact.data<double>();
    for (std::int64_t i = 0; i < value.size(0); ++i) {
      double sum = 0;
      for (std::int64_t d = 0; d < value.size(1); ++d, ++number) sum += *number * *number;
      sublayer.lengths.push_back(std::sqrt(sum));
    }
    return;
  }
}

}  // namespace qkv::inline explaining
