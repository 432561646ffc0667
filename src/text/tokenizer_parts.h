// A tokenizer taken apart: what tokenizer.json is read into (tokenizer_json.cc), and what Tokenizer runs
// (tokenizer.cc).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "qkv/tokenizer.h"
#include "text/added_tokens.h"
#include "text/post_processor.h"
#include "text/stages.h"

namespace qkv {

struct Tokenizer::Parts {
  std::unique_ptr<text::Normalizer> normalizer;       // nullptr: text as it is
  std::unique_ptr<text::PreTokenizer> pre_tokenizer;  // nullptr: the whole text is a word
  std::unique_ptr<text::Model> model;
  std::unique_ptr<text::Decoder> decoder;  // nullptr: tokens joined by spaces
  text::AddedTokens added;
  text::PostProcessor post_processor;
};

namespace text {

// Checks everything; FormatError names `file`, the field and the rule.
Tokenizer::Parts read_tokenizer_json(std::string_view json, const std::string& file);

}  // namespace text
}  // namespace qkv
