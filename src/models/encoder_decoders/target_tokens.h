// What every encoder-decoder does with the target's tokens: what the decoder reads, what counts, and what
// generation_config.json says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/token_rows.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv::inline models {

// Input of the decoder: each target side after the start token, without its own last one.
std::vector<std::int32_t> begun(const PairBatch& batch, std::span<const std::int32_t> positions, std::int32_t start);

// The tokens whose losses count: all, or the one that options name, and -1 for the others.
std::vector<std::int32_t> counted(const PairBatch& batch, const EncoderDecoderTrainingOptions& options);

// std::invalid_argument if there are masks, which generating does not take.
void refuse_masks(std::string_view model, const EncoderDecoderOptions& options);

// The text of generation_config.json: four beams, and `excluded` is never written.
std::string generation_json(const EncoderDecoderTokens& tokens, std::optional<std::int32_t> excluded);

}  // namespace qkv::inline models
