// Tokens of sequences and their positions, and the projection to the vocabulary.
#include "models/token_rows.h"

#include <iterator>

#include "core/refuse.h"
#include "qkv/layers/positions.h"

namespace qkv::inline models {

void TokenRows::add(std::span<const std::int32_t> tokens, std::int64_t first) {
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  lengths.push_back(std::ssize(tokens));
  for (std::int64_t i = 0; i < std::ssize(tokens); ++i) positions.push_back(static_cast<std::int32_t>(first + i));
}

std::vector<std::int32_t> check_positions(std::string_view model, std::size_t ids, const Tensor& offsets,
                                          std::int64_t most) {
  std::vector<std::int32_t> positions = positions_of(offsets, most);
  refuse_unless(offsets.data<std::int32_t>()[0] == 0 && positions.size() == ids, model,
                "{} ids need offsets from 0 to their number", ids);
  return positions;
}

void check_length(std::int64_t length, std::int64_t positions) {
  refuse_unless(length <= positions, "language_model", "a sequence has {} tokens; the model reads at most {}", length,
                positions);
}

ClassWeights classes(const Embedding& table, const TensorView& bias, Tensor& storage) {
  const bool full = table.projection().storage() == WeightStorage::full;
  return {.weight = table.table(storage), .bias = bias, .projection = full ? &table.projection() : nullptr};
}

}  // namespace qkv::inline models
