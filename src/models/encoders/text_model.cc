// TextModel: the head of an encoder, from the names that its kind lists.
#include "qkv/models/text_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "models/encoders/pooled_rows.h"
#include "models/encoders/text_encoder_folder.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/matmul.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

constexpr const char* kTextModel = "text_model";

std::optional<Activation> activation_of(const HeadNames& head, const TextEncoderConfig& config) {
  switch (head.activation) {
    case HeadActivation::tanh:
      return std::nullopt;
    case HeadActivation::relu:
      return Activation::relu;
    case HeadActivation::gelu:
      return Activation::gelu;
    case HeadActivation::of_config:
      break;
  }
  return config.activation;
}

// Input size of a head's last layer: a masked word is predicted from its embedding.
std::int64_t head_columns(const TextHeadConfig& head, const TextEncoderConfig& encoder) {
  return head.task == TextTask::masked_word ? encoder.embedding_columns() : encoder.model_dim;
}

SentencePooling pooling_of(const TextHeadConfig& head) {
  return head.pools_mean ? SentencePooling::mean : SentencePooling::first;
}

// Units of the head's outputs: each token, or each whole sequence.
Tensor read_rows(const TextHeadConfig& head, Tensor hidden, const TensorView& offsets) {
  return head.task == TextTask::sequence_class ? pooled_rows(hidden, offsets, pooling_of(head), kTextModel)
                                               : std::move(hidden);
}

Tensor take_rows(const Tensor& hidden, std::span<const std::int64_t> rows) {
  const std::int64_t dim = hidden.size(1);
  Tensor taken = Tensor::uninitialized({std::ssize(rows), dim});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    refuse_unless(rows[i] >= 0 && rows[i] < hidden.size(0), kTextModel, "there is no row {} of {}", rows[i],
                  hidden.size(0));
    std::copy_n(hidden.data<float>() + rows[i] * dim, dim, taken.data<float>() + static_cast<std::int64_t>(i) * dim);
  }
  return taken;
}

// `count` rows: those that take_rows() took, the others 0.
Tensor put_rows(const Tensor& taken, std::span<const std::int64_t> rows, std::int64_t count) {
  const std::int64_t dim = taken.size(1);
  Tensor all = Tensor::zeros({count, dim});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(taken.data<float>() + static_cast<std::int64_t>(i) * dim, dim, all.data<float>() + rows[i] * dim);
  }
  return all;
}

// Labels that are there, and the rows that they are of; of values all rows.
struct Labelled {
  explicit Labelled(const LabelledTokens& batch) {
    const std::vector<std::int32_t>& all = batch.labels;
    for (std::int64_t i = 0; i < batch.tokens.batch() && !batch.values.empty(); ++i) rows.push_back(i);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] < 0) continue;
      rows.push_back(static_cast<std::int64_t>(i));
      labels.push_back(all[i]);
    }
  }

  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> labels;
};

constexpr const char* kTied = "out.weight";  // in the head

}  // namespace

struct TextModel::Parts {
  TextEncoderFolder& folder;
  Weights weights;
};

TextHeadConfig TextModel::check(const std::string& folder, TextTask task) {
  return TextEncoderFolder(folder, task).head_config();
}

std::optional<TextTask> TextModel::task_in(const std::string& folder) { return TextEncoderFolder::task_in(folder); }

TextModel TextModel::load(const std::string& folder, TextTask task, WeightStorage storage) {
  TextEncoderFolder files(folder, task);
  return TextModel(Parts{files, files.weights(storage)});
}

TextModel TextModel::begin(const std::string& folder, const TextHeadConfig& head, std::uint64_t seed,
                           WeightStorage storage) {
  TextEncoderFolder files(folder, head);
  Weights weights = files.weights(storage), drawn = initial_weights(seed);
  for (const TensorName& missing : files.missing()) weights.add(missing.ours, drawn.take(missing.ours, missing.shape));
  return TextModel(Parts{files, std::move(weights)});
}

TextModel::TextModel(Parts parts)
    : config_(parts.folder.head_config()),
      encoder_(parts.folder.config(), parts.weights),
      activation_(activation_of(parts.folder.head(), parts.folder.config())),
      out_({.in = head_columns(config_, parts.folder.config()), .out = config_.outputs}, parts.weights,
           std::string(kHeadScope) + "out."),
      tied_(parts.folder.tied()) {
  const TextEncoderConfig& encoder = parts.folder.config();
  const HeadNames& head = parts.folder.head();
  const std::string scope = kHeadScope;
  const std::int64_t dim = encoder.model_dim, columns = head_columns(config_, encoder);
  if (head.dense != nullptr) {
    dense_.emplace(LinearConfig{.in = dim, .out = columns, .bias = head.has_biases}, parts.weights, scope + "dense.");
  }
  if (head.norm != nullptr) {
    norm_.emplace(LayerNormConfig{.dim = columns, .epsilon = encoder.epsilon, .bias = head.has_biases}, parts.weights,
                  scope + "norm.");
  }
}

Tensor TextModel::logits(const TokenBatch& tokens, const TextEncoderOptions& options) const {
  const StopScope stop(options.stop);
  Tensor x = read_rows(config_, encoder_.forward(tokens, options), tokens.offsets);
  return head_of(std::move(x), options.threads);
}

Tensor TextModel::logits_of(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                            const TextEncoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(config_.task != TextTask::sequence_class, kTextModel, "a head of whole sequences has no rows");
  const Tensor x = encoder_.forward(tokens, options);
  return head_of(take_rows(x, rows), options.threads);
}

struct TextModel::HeadSaved {
  Tensor rows, wide, active;  // of the dense layer: its input, its output, and that behind the activation
};

Tensor TextModel::head_of(Tensor x, int threads) const {
  return out_.forward(features(std::move(x), threads), threads);
}

Tensor TextModel::features(Tensor x, int threads, HeadSaved* saved) const {
  if (saved != nullptr) saved->rows = Tensor::copy(x);
  if (dense_) {
    x = dense_->forward(x, threads);
    if (saved != nullptr) saved->wide = Tensor::copy(x);
    float* const values = x.data<float>();
    if (activation_) {
      ops::activate(*activation_, values, x.element_count());
    } else {
      std::transform(values, values + x.element_count(), values,
                     [](float value) { return static_cast<float>(tanh(static_cast<double>(value))); });
    }
    if (saved != nullptr) saved->active = Tensor::copy(x);
  }
  return norm_ ? norm_->forward(x, {}, threads) : std::move(x);
}

void TextModel::check_labels(const LabelledTokens& batch) const {
  if (config_.problem != TextProblem::single_label) {
    return refuse_unless(std::ssize(batch.values) == batch.tokens.batch() * config_.outputs && batch.labels.empty(),
                         kTextModel, "{} values and {} labels for {} x {} logits", batch.values.size(),
                         batch.labels.size(), batch.tokens.batch(), config_.outputs);
  }
  const std::int64_t rows =
      config_.task == TextTask::sequence_class ? batch.tokens.batch() : std::ssize(batch.tokens.ids);
  refuse_unless(std::ssize(batch.labels) == rows, kTextModel, "{} labels for {} rows of logits", batch.labels.size(),
                rows);
}

// `grad`: of the logits, if it is wanted.
LossSum TextModel::against_values(const Tensor& logits, const std::vector<float>& values, Tensor* grad) const {
  const bool is_number = config_.problem == TextProblem::regression;
  const auto outputs = static_cast<double>(config_.outputs);
  LossSum total{.count = logits.size(0)};
  for (std::int64_t i = 0; i < logits.element_count(); ++i) {
    const double x = logits.data<float>()[i], value = values[static_cast<std::size_t>(i)];
    const double loss =
        is_number ? (x - value) * (x - value) : std::max(x, 0.0) - x * value + log(1 + exp(-std::abs(x)));
    const double slope = is_number ? 2 * (x - value) : 1 / (1 + exp(-x)) - value;
    total.sum += loss / outputs;
    if (!is_number && (x > 0) == (value > 0.5)) total.metric += 1 / outputs;
    if (grad != nullptr) grad->data<float>()[i] = static_cast<float>(slope / outputs);
  }
  total.nll = total.sum;
  return total;
}

LossSum TextModel::measured(LossSum sum, const Tensor& features, const std::vector<std::int32_t>& labels) const {
  constexpr std::int64_t kRows = 256;  // at a time: of a vocabulary's logits there may be many
  for (std::int64_t begin = 0; begin < features.size(0); begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, features.size(0));
    sum.metric +=
        count_right(out_.forward(features.view().slice(0, begin, end)),
                    std::span(labels).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
  return sum;
}

LossSum TextModel::loss(const LabelledTokens& batch) const {
  check_labels(batch);
  const Labelled wanted(batch);
  const Tensor read = read_rows(config_, encoder_.forward(batch.tokens), batch.tokens.offsets),
               x = features(take_rows(read, wanted.rows), 0);
  if (!batch.values.empty()) return against_values(out_.forward(x), batch.values, nullptr);
  Tensor unpacked;
  return measured(cross_entropy(out_.classes(unpacked), x, wanted.labels), x, wanted.labels);
}

LossSum TextModel::backward(const LabelledTokens& batch, const TextTrainingOptions& options) {
  check_labels(batch);
  refuse_unless(batch.values.empty() || options.label_smoothing == 0, kTextModel,
                "label_smoothing is {}; it must be 0 with values", options.label_smoothing);
  const Dropout all{.p = options.dropout, .seed = options.seed};
  const Dropout in_encoder = dropout_at(all, 0), in_head = dropout_at(all, 1);
  TextEncoderSaved saved;
  const Labelled labelled(batch);
  const Tensor read = read_rows(config_, encoder_.forward(batch.tokens, in_encoder, saved), batch.tokens.offsets);
  HeadSaved head;
  Tensor x = features(take_rows(read, labelled.rows), 0, &head);
  drop(in_head, x, x, 0);
  Tensor grad = Tensor::zeros(x.shape()), unpacked;
  LossSum total;
  if (!batch.values.empty()) {
    const Tensor logits = out_.forward(x);
    Tensor of_logits = Tensor::uninitialized(logits.shape());
    total = against_values(logits, batch.values, &of_logits);
    out_.backward(x, of_logits, grad);
  } else {
    CrossEntropyGradients wanted = out_.class_gradients();
    wanted.hidden = grad;
    if (tied_) wanted.weight = gradient_view(encoder_.words());
    total = measured(
        cross_entropy(out_.classes(unpacked), x, labelled.labels, {.smoothing = options.label_smoothing}, wanted), x,
        labelled.labels);
  }
  drop(in_head, grad, grad, 0);
  encoder_.backward(batch.tokens, in_encoder, saved,
                    backward_features(labelled.rows, batch.tokens, head, std::move(grad)));
  return total;
}

Tensor TextModel::backward_features(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                                    const HeadSaved& saved, Tensor grad) {
  if (norm_) {
    Tensor before = Tensor::zeros(grad.shape());
    norm_->backward(saved.active, grad, before);
    grad = std::move(before);
  }
  if (dense_) {
    if (activation_) {
      ops::activate_backward(*activation_, saved.wide.data<float>(), grad.data<float>(), grad.element_count());
    } else {
      for (std::int64_t i = 0; i < grad.element_count(); ++i) {
        const float value = saved.active.data<float>()[i];
        grad.data<float>()[i] *= 1 - value * value;
      }
    }
    Tensor before = Tensor::zeros(saved.rows.shape());
    dense_->backward(saved.rows, grad, before);
    grad = std::move(before);
  }
  if (config_.task != TextTask::sequence_class) return put_rows(grad, rows, std::ssize(tokens.ids));
  return pooled_rows_backward(put_rows(grad, rows, tokens.batch()), tokens.offsets, pooling_of(config_));
}

void TextModel::observe_gradients(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                                  const TensorView& grad_logits, Observer& observer) const {
  refuse_unless(grad_logits.shape() == Dims{std::ssize(rows), config_.outputs}, kTextModel,
                "the gradient of {} rows of {} logits must have their shape, got {}", rows.size(), config_.outputs,
                to_string(grad_logits.shape()));
  TextEncoderSaved saved;
  HeadSaved head;
  const Tensor read = read_rows(config_, encoder_.forward(tokens, Dropout{}, saved), tokens.offsets);
  features(take_rows(read, rows), 0, &head);
  Tensor grad = Tensor::zeros({std::ssize(rows), head_columns(config_, encoder_.config())});
  matmul(grad_logits, out_.pack_for_backward(), grad);
  // Changes nothing: only training wants gradients of parameters.
  auto& self = const_cast<TextModel&>(*this);
  self.encoder_.backward(tokens, {}, saved, self.backward_features(rows, tokens, head, std::move(grad)), &observer);
}

void TextModel::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  const std::string head = scope + kHeadScope;
  walk(encoder_, scope);
  walk(dense_, head + "dense.");
  walk(norm_, head + "norm.");
  const auto is_tied = [&](const std::string& name) { return tied_ && name == head + kTied; };
  if (walk.updater == nullptr) {
    const auto visit = [&](const std::string& name, const Parameter& own) {
      if (!is_tied(name)) (*walk.visitor)(name, own);
    };
    return out_.visit(visit, head + "out.");
  }
  const auto update = [&](const std::string& name, Parameter& own) {
    is_tied(name) ? convert(encoder_.words().value, own.value) : (*walk.updater)(name, own);
  };
  out_.update(update, head + "out.");
}

void TextModel::save(const std::string& folder, const std::string& from, Dtype dtype) const {
  write_text_folder(folder, from, *this, dtype);
}

}  // namespace qkv
