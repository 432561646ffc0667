// Rows of tokens in every model with a vocabulary: where each is in its sequence, and how hidden states
// become classes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"

namespace qkv::inline models {

// The tokens of some sequences, one after the other, and where each is.
struct TokenRows {
  std::vector<std::int32_t> ids, positions;
  std::vector<std::int64_t> lengths;

  void add(std::span<const std::int32_t> tokens, std::int64_t first);
};

// 0, 1, 2 ... for each of so many ids within its sequence; std::invalid_argument, beginning with `model`, for offsets
// that do not fit them, and for a sequence of more than `most`.
std::vector<std::int32_t> check_positions(std::string_view model, std::size_t ids, const Tensor& offsets,
                                          std::int64_t most);

// std::invalid_argument, in the name of a language model, for a sequence that is longer than its positions.
void check_length(std::int64_t length, std::int64_t positions);

// The projection to the vocabulary, with a bias if there is one; `storage` holds its weights if need be.
ClassWeights classes(const Embedding& table, const TensorView& bias, Tensor& storage);

}  // namespace qkv::inline models
