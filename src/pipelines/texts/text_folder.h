// What an encoder with a head and its tokenizer are opened from.
#pragma once

#include <cstddef>
#include <string>

#include "qkv/models/text_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

struct TextFolder {
  TextModel model;
  Tokenizer tokenizer;
  std::size_t max_length;  // tokens of a sequence, special ones included
};

inline namespace pipelines {

// FormatError as from TextModel::load, Tokenizer::load and read_max_length.
TextFolder open_text_folder(const std::string& folder, TextTask task, WeightStorage storage);

// FormatError, naming tokenizer.json, unless its tokenizer makes pairs of texts that fit the model.
void expect_pairs(const TextFolder& opened, const std::string& folder);

// The special token of a masked word, [MASK] or <mask>; empty: the tokenizer has none.
std::string mask_of(const Tokenizer& tokenizer);

}  // namespace pipelines
}  // namespace qkv
