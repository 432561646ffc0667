// TextModel: the head of an encoder, from the names that its kind lists.
#include "qkv/models/text_model.h"

#include <algorithm>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "models/encoders/text_encoder_folder.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

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

// What the last layer of a head reads: a masked word is told from its embedding.
std::int64_t head_columns(const TextHeadConfig& head, const TextEncoderConfig& encoder) {
  return head.task == TextTask::masked_word ? encoder.embedding_columns() : encoder.model_dim;
}

// The number of the first row of each sequence.
std::vector<std::int64_t> first_rows(const TensorView& offsets) {
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b + 1 < offsets.size(0); ++b) {
    rows.push_back(offsets.at<std::int32_t>({b}));
    refuse_unless(rows.back() < offsets.at<std::int32_t>({b + 1}), "text_model", "sequence {} has no tokens", b);
  }
  return rows;
}

// The mean over the rows of each sequence.
Tensor mean_rows(const Tensor& hidden, const TensorView& offsets) {
  const std::int64_t batch = offsets.size(0) - 1, dim = hidden.size(1);
  Tensor means = Tensor::zeros({batch, dim});
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int32_t begin = offsets.at<std::int32_t>({b}), end = offsets.at<std::int32_t>({b + 1});
    float* const mean = means.data<float>() + b * dim;
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t e = 0; e < dim; ++e) mean[e] += hidden.data<float>()[i * dim + e];
    }
    for (std::int64_t e = 0; e < dim; ++e) mean[e] /= static_cast<float>(end - begin);
  }
  return means;
}

Tensor take_rows(const Tensor& hidden, std::span<const std::int64_t> rows) {
  const std::int64_t dim = hidden.size(1);
  Tensor taken = Tensor::uninitialized({std::ssize(rows), dim});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    refuse_unless(rows[i] >= 0 && rows[i] < hidden.size(0), "text_model", "row {} of {} is not there", rows[i],
                  hidden.size(0));
    std::copy_n(hidden.data<float>() + rows[i] * dim, dim, taken.data<float>() + static_cast<std::int64_t>(i) * dim);
  }
  return taken;
}

}  // namespace

struct TextModel::Parts {
  TextEncoderFolder& folder;
  Weights weights;
};

TextHeadConfig TextModel::check(const std::string& folder, TextTask task) {
  return TextEncoderFolder(folder, task).head_config();
}

std::optional<TextTask> TextModel::task_in(const std::string& folder) { return TextEncoderFolder::task_in(folder); }

void TextModel::visit(const ParameterVisitor& visitor) const {
  encoder_.visit(visitor);
  const std::string scope = kHeadScope;
  if (dense_) dense_->visit(visitor, scope + "dense.");
  if (norm_) norm_->visit(visitor, scope + "norm.");
  out_.visit(visitor, scope + "out.");
}

TextModel TextModel::load(const std::string& folder, TextTask task, WeightStorage storage) {
  TextEncoderFolder files(folder, task);
  return TextModel(Parts{files, files.weights(storage)});
}

TextModel::TextModel(Parts parts)
    : config_(parts.folder.head_config()),
      encoder_(parts.folder.config(), parts.weights),
      activation_(activation_of(parts.folder.head(), parts.folder.config())),
      out_({.in = head_columns(config_, parts.folder.config()), .out = config_.outputs}, parts.weights,
           std::string(kHeadScope) + "out.") {
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
  Tensor x = encoder_.forward(tokens, options);
  if (config_.task == TextTask::sequence_class) {
    const std::vector<std::int64_t> first = first_rows(tokens.offsets);
    x = config_.pools_mean ? mean_rows(x, tokens.offsets) : take_rows(x, first);
  }
  return head_of(std::move(x), options.threads);
}

Tensor TextModel::logits_of(std::span<const std::int64_t> rows, const TokenBatch& tokens,
                            const TextEncoderOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(config_.task != TextTask::sequence_class, "text_model", "a head of whole sequences has no rows");
  return head_of(take_rows(encoder_.forward(tokens, options), rows), options.threads);
}

Tensor TextModel::head_of(Tensor x, int threads) const {
  if (dense_) {
    x = dense_->forward(x, threads);
    float* const values = x.data<float>();
    if (activation_) {
      ops::activate(*activation_, values, x.element_count());
    } else {
      std::transform(values, values + x.element_count(), values,
                     [](float value) { return static_cast<float>(tanh(static_cast<double>(value))); });
    }
  }
  if (norm_) x = norm_->forward(x, {}, threads);
  return out_.forward(x, threads);
}

}  // namespace qkv
