/// \file
/// An encoder of texts with a head: what it says of a text, of a pair of texts or of each token. Reads the folders of
/// transformers' classes for BERT, RoBERTa, XLM-RoBERTa, DistilBERT, MPNet, ModernBERT and ALBERT.
///
///     TextModel model = TextModel::load("folder", TextTask::sequence_class);
///     Tensor logits = model.logits(tokens);   // [batch, labels]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/models/text_encoder.h"

namespace qkv {

/// What a head says.
enum class TextTask {
  masked_word,     ///< ForMaskedLM: a logit for each word of the vocabulary, at each token
  sequence_class,  ///< ForSequenceClassification: one for each label, of the whole; a pair's score is one label's
  token_class,     ///< ForTokenClassification: one for each label, at each token
  answer,          ///< ForQuestionAnswering: of the answer's first token, and of its last one, at each token
};

/// A head as its folder has it.
struct TextHeadConfig {
  TextTask task = TextTask::sequence_class;
  std::int64_t outputs = 0;           ///< logits of a row
  std::vector<std::string> labels{};  ///< of id2label; none for masked words
  bool pools_mean = false;            ///< a sequence_class reads the mean over tokens instead of the first one
};

/// Safe for concurrent logits().
class QKV_API TextModel {
 public:
  /// `folder` as for TextEncoder::load, with the head of the task. FormatError as from there, where the head is missing
  /// or another, and where there are not as many labels in config.json as rows in the head. The table of words is tied
  /// to the head of masked words unless config.json has tie_word_embeddings false.
  static TextModel load(const std::string& folder, TextTask task, WeightStorage storage = WeightStorage::full);
  /// What load() would open, after checking the names, shapes and types of all weights without reading them.
  static TextHeadConfig check(const std::string& folder, TextTask task);

  /// [tokens, outputs], or of a sequence_class [batch, outputs], from the first token of each sequence, or their mean.
  /// std::invalid_argument as from TextEncoder::forward, and there for a sequence without tokens.
  Tensor logits(const TokenBatch& tokens, const TextEncoderOptions& options = {}) const;

  /// The task of the class that config.json names in "architectures"; none: of an encoder without a head, or no class.
  static std::optional<TextTask> task_in(const std::string& folder);

  /// The same of these tokens alone, [rows, outputs], numbered in the batch; not of a sequence_class.
  Tensor logits_of(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                   const TextEncoderOptions& options = {}) const;

  /// The head alone: of last hidden states [rows, model_dim] the logits [rows, outputs].
  Tensor head_of(Tensor x, int threads) const;

  /// Of the encoder, then of the head, as head.dense.*, head.norm.* and head.out.*.
  void visit(const ParameterVisitor& visitor) const;
  const TextHeadConfig& config() const { return config_; }
  const TextEncoder& encoder() const { return encoder_; }

 private:
  struct Parts;  // what a folder holds, in the source file
  explicit TextModel(Parts parts);
  TextHeadConfig config_;
  TextEncoder encoder_;
  std::optional<Linear> dense_;
  std::optional<Activation> activation_;  // none: tanh
  std::optional<LayerNorm> norm_;
  Linear out_;
};

}  // namespace qkv
