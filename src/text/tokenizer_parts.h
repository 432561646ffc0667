// A tokenizer taken apart: what tokenizer.json is read into (tokenizer_json.cc), and what Tokenizer runs
// (tokenizer.cc).
#pragma once

#include <memory>

#include "io/json_document.h"
#include "qkv/text/tokenizer.h"
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

// Checks everything; FormatError names the file, the field and the rule. Ids must be below `vocab`. The document is
// gone before the model makes its index: of large vocabularies both are large.
Tokenizer::Parts read_tokenizer_json(std::unique_ptr<const io::JsonDocument> document, std::int64_t vocab);

}  // namespace text
}  // namespace qkv
