/// \file
/// An encoder with a head and the tokenizer of its texts: the common part of Reranker, TextClassifier, FillMask, Tagger
/// and QuestionAnswerer, which fingerprint() takes.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "qkv/api.h"
#include "qkv/models/text_model.h"
#include "qkv/pipelines/class_probability.h"
#include "qkv/text/tokenizer.h"

namespace qkv {

/// Safe for concurrent calls.
class QKV_API TextPipeline {
 public:
  /// `folder` holds what TextModel::load reads, tokenizer.json, and perhaps sentence_bert_config.json,
  /// tokenizer_config.json (its model_max_length), and for a sequence_class with one label, which ranks, modules.json
  /// and config_sentence_transformers.json (its activation_fn). FormatError as from there, and for a problem_type of
  /// config.json other than single_label_classification, multi_label_classification and regression. `storage` as in
  /// weights.h.
  static TextPipeline load(const std::string& folder, TextTask task, WeightStorage storage = WeightStorage::full);

  /// Whether the folder is of an encoder with a head for classes or answers, by itself: embedders may have one, too,
  /// which they do not use, and any encoder one for masked words.
  static bool is_in(const std::string& folder);

  /// Tokens of a sequence, special ones included.
  std::size_t max_length() const { return max_length_; }
  const TextModel& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// How logits of a sequence_class become results: of classes, and whether ranks are their sigmoid.
  ClassScores scores() const { return scores_; }
  bool ranks_by_sigmoid() const { return ranks_by_sigmoid_; }
  /// The folder's settings besides the model, the tokenizer as a digest: for fingerprint().
  std::string settings() const;

 private:
  TextPipeline(TextModel model, Tokenizer tokenizer, std::size_t max_length)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), max_length_(max_length) {}

  TextModel model_;
  Tokenizer tokenizer_;
  std::size_t max_length_;
  ClassScores scores_ = ClassScores::softmax;
  bool ranks_by_sigmoid_ = true;
};

}  // namespace qkv
