// Texts whose words have a label each: read from files, and as examples to train on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/models/text_model.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text_lines.h"
#include "qkv/train/examples.h"
#include "train/data/labelled_texts.h"

namespace qkv::training {

struct LabelledWords {
  std::vector<std::string> words, labels;
  std::int64_t line;  // of the first word, from 1
};

// A word, a tab and its label a line, with a blank line between texts; or, of a file whose name ends with ".jsonl", an
// object a line with lists `words` and `labels`. FormatError, naming the line, for what breaks a rule.
std::vector<LabelledWords> read_labelled_words(const std::string& path, std::span<const std::string> reserved,
                                               const TextLineOptions& options);

// Sorted, each once.
std::vector<std::string> labels_of(const std::vector<LabelledWords>& texts);

// Words with a space between them, where the first token of each has its label, and no other token.
class WordExamples : public EncodedExamples<LabelledTokens> {
 public:
  // FormatError, naming the line of the text and `path`, for a label that is not one of them.
  WordExamples(const std::vector<LabelledWords>& texts, const std::vector<std::string>& labels,
               const Tokenizer& tokenizer, std::int64_t max_length, const std::string& path);

  std::uint32_t checksum() const override;
  LabelledTokens collect(std::span<const std::uint32_t> chosen) const override;

 private:
  std::vector<std::vector<std::int32_t>> labels_;  // of each token
};

}  // namespace qkv::training
