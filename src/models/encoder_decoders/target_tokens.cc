// Beginnings of target tokens, and those that count.
#include "models/encoder_decoders/target_tokens.h"

#include <nlohmann/json.hpp>

#include "core/refuse.h"

namespace qkv::inline models {

std::vector<std::int32_t> begun(const PairBatch& batch, std::span<const std::int32_t> positions, std::int32_t start) {
  std::vector<std::int32_t> ids(positions.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = positions[i] == 0 ? start : batch.target[i - 1];
  return ids;
}

std::vector<std::int32_t> counted(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) {
  if (!options.only) return batch.target;
  const std::int64_t count = std::ssize(batch.target);
  refuse_unless(*options.only >= 0 && *options.only < count, "encoder_decoder",
                "there is no target token {}; the batch has {}", *options.only, count);
  std::vector<std::int32_t> tokens(batch.target.size(), -1);
  const auto only = static_cast<std::size_t>(*options.only);
  tokens[only] = batch.target[only];
  return tokens;
}

void refuse_masks(std::string_view model, const EncoderDecoderOptions& options) {
  const auto& [encoder, decoder, memory] = options.masks;
  refuse_unless(encoder.empty() && decoder.empty() && memory.empty(), model, "decoder() takes no masks; logits() does");
}

std::string generation_json(const EncoderDecoderTokens& tokens, std::optional<std::int32_t> excluded) {
  using Json = nlohmann::ordered_json;
  Json json = Json::object();
  if (excluded) json["bad_words_ids"] = Json::array({Json::array({*excluded})});
  json.update(Json{{"decoder_start_token_id", tokens.start},
                   {"eos_token_id", tokens.end},
                   {"forced_eos_token_id", tokens.end},
                   {"max_length", tokens.positions},
                   {"num_beams", 4},
                   {"pad_token_id", tokens.padding}});
  return json.dump(2) + "\n";
}

}  // namespace qkv::inline models
