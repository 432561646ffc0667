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
#include "qkv/dtype.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/trainable.h"

namespace qkv {

/// What a head says.
enum class TextTask {
  masked_word,     ///< ForMaskedLM: a logit for each word of the vocabulary, at each token
  sequence_class,  ///< ForSequenceClassification: one for each label, of the whole; a pair's score is one label's
  token_class,     ///< ForTokenClassification: one for each label, at each token
  answer,          ///< ForQuestionAnswering: of the answer's first token, and of its last one, at each token
};

/// What a sequence_class is trained to say: transformers' problem_type.
enum class TextProblem {
  single_label,  ///< the one label of a text
  multi_label,   ///< of each label whether it is one of the text's
  regression,    ///< a number
};

/// A head as its folder has it.
struct TextHeadConfig {
  TextTask task = TextTask::sequence_class;
  std::int64_t outputs = 0;           ///< logits of a row
  std::vector<std::string> labels{};  ///< of id2label; none for masked words
  bool pools_mean = false;            ///< a sequence_class reads the mean over tokens instead of the first one
  TextProblem problem = TextProblem::single_label;  ///< of a sequence_class
};

/// Sequences of tokens, and what the head is to say: a label for each sequence or, of a head that says something at
/// each token, for each token; below 0: none.
struct LabelledTokens {
  TokenBatch tokens;
  std::vector<std::int32_t> labels;
  /// For multi_label (1 or 0) and regression, instead of labels: [batch, outputs].
  std::vector<float> values{};
};

struct TextTrainingOptions {
  double dropout = 0;          ///< everywhere: embeddings, weights of attention, sublayers, activations, head
  double label_smoothing = 0;  ///< spread evenly over the labels
  std::uint64_t seed = 0;      ///< of dropout
};

/// Safe for concurrent logits(); only update() and backward() modify it.
class QKV_API TextModel : public Parameterized {
 public:
  /// `folder` as for TextEncoder::load, with the head of the task. FormatError as from there, where the head is missing
  /// or another, and where there are not as many labels in config.json as rows in the head. The table of words is tied
  /// to the head of masked words unless config.json has tie_word_embeddings false.
  static TextModel load(const std::string& folder, TextTask task, WeightStorage storage = WeightStorage::full);
  /// To train from: the encoder of `folder`, which may have another head or none, with this one; what the folder has of
  /// it is taken, the rest drawn from `seed` (initial_weights.h). Of the output's rows, only where the labels are the
  /// same.
  static TextModel begin(const std::string& folder, const TextHeadConfig& head, std::uint64_t seed,
                         WeightStorage storage = WeightStorage::full);
  /// What load() would open, after checking the names, shapes and types of all weights without reading them.
  static TextHeadConfig check(const std::string& folder, TextTask task);

  /// [tokens, outputs], or of a sequence_class [batch, outputs], from the first token of each sequence, or their mean.
  /// std::invalid_argument as from TextEncoder::forward, and there for a sequence without tokens.
  Tensor logits(const TokenBatch& tokens, const TextEncoderOptions& options = {}) const;

  /// The same of these tokens alone, [rows, outputs], numbered in the batch; not of a sequence_class.
  Tensor logits_of(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                   const TextEncoderOptions& options = {}) const;

  /// The backward pass from the gradient of what logits_of() gives, or of a sequence_class, whose row is 0, logits() of
  /// one sequence. The observer receives "layers.N.heads_gradient" (text_encoder.h). Errors as from there, and
  /// std::invalid_argument for a gradient of another shape.
  void observe_gradients(std::span<const std::int64_t> rows, const TokenBatch& tokens, const TensorView& grad_logits,
                         Observer& observer) const;

  /// The head alone: of last hidden states [rows, model_dim] the logits [rows, outputs].
  Tensor head_of(Tensor x, int threads) const;

  /// The task of the class that config.json names in "architectures"; none: of an encoder without a head, or no class.
  static std::optional<TextTask> task_in(const std::string& folder);

  /// As in trainable.h: the cross-entropy of the labels, and as metric how many are the most probable one. Of
  /// multi_label the mean over the labels of the cross-entropy of each one's sigmoid, and as metric the share that is
  /// on the right side of 0; of regression the mean of the squared errors, without a metric. std::invalid_argument as
  /// above, and unless there are as many labels as rows of logits, or as many values as logits; and for label
  /// smoothing of values.
  LossSum loss(const LabelledTokens& batch) const;
  LossSum backward(const LabelledTokens& batch, const TextTrainingOptions& options);
  /// Writes config.json of the encoder's folder `from`, with this head; and model.safetensors, the weights as `dtype`:
  /// as transformers' class of the task opens them.
  void save(const std::string& folder, const std::string& from, Dtype dtype = Dtype::f32) const;

  const TextHeadConfig& config() const { return config_; }
  const TextEncoder& encoder() const { return encoder_; }

 private:
  /// The encoder's parameters, then head.{dense,norm,out}.*, without an output that is tied to the table of words.
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  struct Parts;  // what a folder holds, in the source file
  explicit TextModel(Parts parts);

  struct HeadSaved;
  /// What the output takes: of rows [n, model_dim], through the head's own layers.
  Tensor features(Tensor rows, int threads, HeadSaved* saved = nullptr) const;
  /// The gradient of the encoder's output, from the gradient of the features of these rows.
  Tensor backward_features(std::span<const std::int64_t> rows, const TokenBatch& tokens, const HeadSaved& saved,
                           Tensor grad);
  void check_labels(const LabelledTokens& batch) const;
  LossSum against_values(const Tensor& logits, const std::vector<float>& values, Tensor* grad) const;
  LossSum measured(LossSum sum, const Tensor& features, const std::vector<std::int32_t>& labels) const;

  TextHeadConfig config_;
  TextEncoder encoder_;
  std::optional<Linear> dense_;
  std::optional<Activation> activation_;  // none: tanh
  std::optional<LayerNorm> norm_;
  Linear out_;
  bool tied_ = false;  // the output's weight is the table of words
};

}  // namespace qkv
