// Generated tokens as text, the words that they form, and how probable they were.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/explain/explainable.h"
#include "qkv/text/tokenizer.h"

namespace qkv::inline explaining {

// Without a tokenizer the names of tokens are their ids.
struct TokenPieces {
  TokenPieces(const Tokenizer* tokenizer, std::span<const std::int32_t> ids);

  std::vector<std::string> tokens{};
  std::vector<std::uint8_t> marks{};  // 1 for special tokens
  TokenWords words{};
};

// A token's label and its probability in a row of logits [vocab].
TokenProbability probability_of(std::int32_t id, std::span<const float> logits, double log_sum_exp,
                                const Tokenizer* tokenizer);

// Row i of the logits [tokens, vocab] wrote output[i].
std::vector<WrittenToken> written_tokens(const TensorView& logits, std::span<const std::int32_t> output,
                                         const Tokenizer* tokenizer);
std::vector<double> log_probabilities(const TensorView& logits, std::span<const std::int32_t> output);

// A row of [rows, size].
std::span<const float> row_of(const TensorView& rows, std::size_t i);

}  // namespace qkv::inline explaining
