/// \file
/// Classifies texts. Reads the folders of transformers' ForSequenceClassification with a tokenizer.json.
///
///     TextClassifier classifier = TextClassifier::load("folder");
///     for (const ClassProbability& found : classifier.classify("A fine day.", 3)) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/api.h"
#include "qkv/pipelines/text_pipeline.h"

namespace qkv {

/// An input: a text, or a pair of texts read as one sequence.
struct TextOrPair {
  std::string text;
  std::optional<std::string> second{};
};

/// Safe for concurrent calls.
class QKV_API TextClassifier : public TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, tokenizer.json, and perhaps sentence_bert_config.json and
  /// tokenizer_config.json (its model_max_length). FormatError as from there, and for a problem_type of config.json
  /// other than single_label_classification, multi_label_classification and regression. `storage` as in weights.h.
  static TextClassifier load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  /// The `top` most probable classes, in decreasing order; ties in the model's order. Probabilities are the sigmoid of
  /// each logit for multi_label_classification and for one label, else the softmax; for regression the logits
  /// themselves. A text of more than max_length() tokens is truncated. std::invalid_argument if `top` is below 1.
  std::vector<ClassProbability> classify(const std::string& text, std::int64_t top = 1,
                                         const TextEncoderOptions& options = {}) const;

  /// The same for each text, for any other texts and any number of threads.
  std::vector<std::vector<ClassProbability>> classify(std::span<const std::string> texts, std::int64_t top = 1,
                                                      const TextEncoderOptions& options = {}) const;

  /// The same for texts and pairs; in a pair the longer text is truncated first. std::invalid_argument for a pair if
  /// the tokenizer does not define pairs.
  std::vector<std::vector<ClassProbability>> classify(std::span<const TextOrPair> texts, std::int64_t top = 1,
                                                      const TextEncoderOptions& options = {}) const;

  /// As the model reads it. `cut`, if given: how many tokens exceed max_length().
  Encoding encode(const TextOrPair& text, std::int64_t* cut = nullptr) const;

 private:
  explicit TextClassifier(TextPipeline opened) : TextPipeline(std::move(opened)) {}
};

}  // namespace qkv
