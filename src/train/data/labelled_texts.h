// Texts, or pairs of texts, with a label each: read from files, and as examples to train on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/models/sentence_encoder.h"
#include "qkv/models/text_model.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text_lines.h"
#include "qkv/train/examples.h"

namespace qkv::training {

struct LabelledText {
  std::string text;
  std::optional<std::string> second;
  std::string label;  // empty: none; several with a comma between them
  std::int64_t line;  // from 1
};

// The columns of a file besides the text.
struct TextColumns {
  bool second = false, label = true;
  TextProblem problem = TextProblem::single_label;
};

// Columns with a tab between them, CSV or lines of JSON, by the name of the file. FormatError, naming the line, for
// what breaks a rule: another number of columns, an empty text or label (of several labels none is one), a label of
// regression that is no number, bytes that are not UTF-8, and texts that hold one of `reserved`.
std::vector<LabelledText> read_labelled_texts(const std::string& path, const TextColumns& columns,
                                              std::span<const std::string> reserved, const TextLineOptions& options);

// Sorted, each once; of regression one, as transformers calls it.
std::vector<std::string> labels_of(const std::vector<LabelledText>& texts,
                                   TextProblem problem = TextProblem::single_label);

// Its number among labels_of(). FormatError, naming the line, for one that is not there.
std::int32_t number_of(const std::string& label, const std::vector<std::string>& labels, const std::string& path,
                       std::int64_t line);

// Encodings, and batches of them.
class EncodedTexts {
 public:
  // `encode` encodes text i with at most so many tokens; 0: all.
  EncodedTexts(std::size_t count, std::int64_t max_length,
               const std::function<Encoding(std::size_t i, std::size_t max_length)>& encode);

  std::int64_t length(std::int64_t i) const { return std::ssize(encodings_[static_cast<std::size_t>(i)].ids); }
  std::uint32_t checksum(std::uint32_t sum) const;
  TokenBatch collect(std::span<const std::uint32_t> chosen) const;
  std::int64_t count() const { return std::ssize(encodings_); }
  const Encoding& encoding(std::size_t i) const { return encodings_[i]; }
  std::int64_t cut() const { return cut_; }  // how many lost their ends

 private:
  std::vector<Encoding> encodings_;
  std::int64_t cut_ = 0;
};

// The common part of examples of encoded texts, for every task.
template <class Batch>
class EncodedExamples : public Examples<Batch> {
 public:
  std::string kind() const override { return "texts"; }
  std::int64_t count() const override { return texts_.count(); }
  ExampleSize size(std::int64_t i) const override { return {.cost = 1, .length = texts_.length(i)}; }

  std::int64_t cut() const { return texts_.cut(); }

 protected:
  explicit EncodedExamples(EncodedTexts texts) : texts_(std::move(texts)) {}

  EncodedTexts texts_;
};

// Pairs of texts that belong together.
class SentenceExamples : public Examples<SentencePairs> {
 public:
  SentenceExamples(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer, std::int64_t max_length);

  std::string kind() const override { return "pairs"; }
  std::int64_t count() const override { return first_.count(); }
  // Each is compared with the others of its batch, so that pairs of all lengths share one.
  ExampleSize size(std::int64_t) const override { return {}; }
  std::uint32_t checksum() const override { return second_.checksum(first_.checksum(0)); }
  SentencePairs collect(std::span<const std::uint32_t> chosen) const override {
    return {first_.collect(chosen), second_.collect(chosen)};
  }

  std::int64_t cut() const { return first_.cut() + second_.cut(); }

 private:
  EncodedTexts first_, second_;
};

// Texts as they are, of which words are hidden by mask_tokens().
class PlainExamples : public EncodedExamples<TokenBatch> {
 public:
  PlainExamples(const std::vector<LabelledText>& texts, const Tokenizer& tokenizer, std::int64_t max_length);

  std::uint32_t checksum() const override { return texts_.checksum(0); }
  TokenBatch collect(std::span<const std::uint32_t> chosen) const override { return texts_.collect(chosen); }
};

// Which tokens a batch may hide, and behind what.
struct MaskedWords {
  std::int32_t mask = 0;
  std::int64_t vocab = 0;
  std::vector<std::uint8_t> is_special{};  // by id
};

// Selects 15 in 100 of the tokens that are not special, at least one of a batch, to predict: 80 in 100 of these are
// masked, 10 replaced by other tokens, and 10 kept. Source: Devlin et al., "BERT" (2018), section 3.1.
LabelledTokens mask_tokens(TokenBatch tokens, const MaskedWords& words, std::uint64_t seed);

// The encodings of texts and the numbers of their labels, or their values.
class TextExamples : public EncodedExamples<LabelledTokens> {
 public:
  // FormatError, naming line and `path`, for a label that is not one of them.
  TextExamples(const std::vector<LabelledText>& texts, const std::vector<std::string>& labels,
               const Tokenizer& tokenizer, std::int64_t max_length, const std::string& path,
               TextProblem problem = TextProblem::single_label);

  std::uint32_t checksum() const override;
  LabelledTokens collect(std::span<const std::uint32_t> chosen) const override;
  const std::vector<float>& values() const { return values_; }

 private:
  std::vector<std::int32_t> labels_;
  std::vector<float> values_;  // [texts, outputs]
};

}  // namespace qkv::training
