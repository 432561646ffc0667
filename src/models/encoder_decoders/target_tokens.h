// What every encoder-decoder does with the target's tokens: where each is, what the decoder reads, how hidden states
// become classes, and what generation_config.json says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv::inline models {

// 0, 1, 2 ... for each of so many ids within its sequence; std::invalid_argument, beginning with `model`, for offsets
// that do not fit them, and for a sequence of more than `most`.
std::vector<std::int32_t> check_positions(std::string_view model, std::size_t ids, const Tensor& offsets,
                                          std::int64_t most);

// What the decoder reads: each target side behind the start token, without its own last one.
std::vector<std::int32_t> begun(const PairBatch& batch, std::span<const std::int32_t> positions, std::int32_t start);

// The tokens whose losses count: all, or the one that options name, and -1 for the others.
std::vector<std::int32_t> counted(const PairBatch& batch, const EncoderDecoderTrainingOptions& options);

// The projection to the vocabulary; `storage` holds its weights if need be.
ClassWeights classes(const Embedding& table, const Parameter& bias, Tensor& storage);

// std::invalid_argument if there are masks, which generating does not take.
void refuse_masks(std::string_view model, const EncoderDecoderOptions& options);

// The text of generation_config.json: four beams, and `excluded` is never written.
std::string generation_json(const EncoderDecoderTokens& tokens, std::optional<std::int32_t> excluded);

}  // namespace qkv::inline models
