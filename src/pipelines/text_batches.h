// Texts on their way through an encoder: their tokens, and batches of whole texts in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/models/text_encoder.h"
#include "qkv/text/tokenizer.h"

namespace qkv::inline pipelines {

struct TextCut {
  std::size_t max_length;  // tokens of a text, special ones included; the rest is cut off
  int threads = 0;
  std::span<std::int64_t> cut{};  // how many are, if somebody wants to know
  std::string_view prompt{};      // before each text
};
// std::invalid_argument of `function` if cut has another number of elements than there are texts.
std::vector<Encoding> encode_texts(const char* function, const Tokenizer& tokenizer, std::span<const std::string> texts,
                                   const TextCut& options);

// The special token of a masked word, [MASK] or <mask>; empty: the tokenizer has none.
std::string mask_of(const Tokenizer& tokenizer);

// Calls `run` with each batch and the number of its first text, several at a time on as many threads.
void for_each_text_batch(std::span<const Encoding> encodings, int threads,
                         const std::function<void(const TokenBatch& batch, std::size_t first)>& run);

}  // namespace qkv::inline pipelines
