// Vit: embeddings, encoder and classifier, forward and backward.
#include "qkv/models/vit.h"

#include <algorithm>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/layer_dropout.h"
#include "models/vit_folder.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

constexpr const char* kEmbeddings = "embeddings.";
constexpr const char* kWeight = "classifier.weight";
constexpr const char* kBias = "classifier.bias";

// What has dropout of its own.
enum VitSite : std::uint32_t { kVitEmbeddings, kVitEncoder };

StackConfig stack_config(const VitConfig& config) {
  return {.layer = {.model_dim = config.model_dim,
                    .heads = config.heads,
                    .ff_dim = config.ff_dim,
                    .activation = config.activation,
                    .epsilon = config.epsilon,
                    .norm_order = NormOrder::pre,
                    .layer_scale = config.kind == VitKind::dinov2},
          .layers = config.layers,
          .final_norm = true};
}

// Vectors of model_dim that the classifier takes.
std::int64_t parts(const VitConfig& config) { return config.kind == VitKind::dinov2 ? 2 : 1; }

}  // namespace

bool Vit::is_in(const std::string& folder) { return is_vit_folder(folder); }

VitConfig Vit::read_config(const std::string& folder) { return read_vit_config(folder); }

VitConfig Vit::check(const std::string& folder) { return VitFolder(folder).config(); }

Vit Vit::load(const std::string& folder) {
  VitFolder files(folder);
  Weights weights = files.weights();
  return Vit(files.config(), weights);
}

void Vit::save(const std::string& folder, Dtype dtype) const { write_vit_folder(folder, *this, dtype); }

Vit::Vit(const VitConfig& config, Weights& weights)
    : config_(config),
      embeddings_({.channels = config.channels,
                   .patch = config.patch,
                   .grid = {config.picture.height / std::max<std::int64_t>(config.patch.height, 1),
                            config.picture.width / std::max<std::int64_t>(config.patch.width, 1)},
                   .dim = config.model_dim},
                  weights, kEmbeddings),
      encoder_(stack_config(config), weights) {
  if (config.labels.empty()) return;
  const std::int64_t labels = std::ssize(config.labels);
  classifier_weight_.value = weights.take(kWeight, {labels, parts(config) * config.model_dim});
  classifier_bias_.value = weights.take(kBias, {labels});
}

Vit Vit::initial(const VitConfig& config, std::uint64_t seed) {
  Weights weights = initial_weights(seed);
  return Vit(config, weights);
}

Tensor Vit::forward(const TensorView& pictures, const VitOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  const Tensor x = embeddings_.forward(pictures, options.threads);
  const TensorView rows = x.view().reshape({x.size(0) * x.size(1), x.size(2)});
  if (observer != nullptr) observer->receive("embeddings", rows);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(x.size(0)), x.size(1));
  const Tensor offsets = offsets_of(lengths);
  const Tensor hidden =
      encoder_.run({{rows, offsets}, {.threads = options.threads}}, observer, {.self = options.masks});
  return Tensor::copy(hidden.view().reshape(x.shape()));
}

Tensor Vit::features(const Tensor& hidden) const {
  const std::int64_t batch = hidden.size(0), patches = hidden.size(1) - 1, dim = hidden.size(2);
  Tensor out = Tensor::uninitialized({batch, parts(config_) * dim}, hidden.dtype());
  const auto run = [&]<class T>(T) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* rows = hidden.data<T>() + b * (1 + patches) * dim;
      T* to = out.data<T>() + b * out.size(1);
      std::copy_n(rows, dim, to);
      for (std::int64_t e = dim; e < out.size(1); ++e) {
        double sum = 0;
        for (std::int64_t i = 1; i <= patches; ++i) sum += static_cast<double>(rows[i * dim + e - dim]);
        to[e] = static_cast<T>(sum / static_cast<double>(patches));
      }
    }
  };
  visit_f32_f64(hidden.dtype(), run);
  return out;
}

Tensor Vit::features_backward(const Tensor& grad, const Dims& hidden) const {
  Tensor out = Tensor::zeros(hidden, grad.dtype());
  const std::int64_t tokens = hidden[1], dim = hidden[2];
  const auto run = [&]<class T>(T) {
    for (std::int64_t b = 0; b < hidden[0]; ++b) {
      const T* from = grad.data<T>() + b * grad.size(1);
      T* rows = out.data<T>() + b * tokens * dim;
      std::copy_n(from, dim, rows);
      for (std::int64_t e = dim; e < grad.size(1); ++e) {
        for (std::int64_t i = 1; i < tokens; ++i) rows[i * dim + e - dim] = from[e] / static_cast<T>(tokens - 1);
      }
    }
  };
  visit_f32_f64(grad.dtype(), run);
  return out;
}

Tensor Vit::logits(const TensorView& pictures, const VitOptions& options, Observer* observer) const {
  const StopScope stop(options.stop);
  refuse_unless(!config_.labels.empty(), "vit", "the model has no classifier");
  return classify(features(forward(pictures, options, observer)), options.threads);
}

Tensor Vit::classify(const Tensor& features, int threads) const {
  Tensor out = Tensor::uninitialized({features.size(0), std::ssize(config_.labels)}, features.dtype());
  matmul(features, PackedMatrix(classifier_weight_.value.view().transpose(0, 1), threads), out,
         {.bias = classifier_bias_.value, .threads = threads});
  return out;
}

void Vit::check_labels(const LabelledPictures& batch) const {
  refuse_unless(batch.pictures.rank() == 4 && batch.pictures.size(0) == std::ssize(batch.labels), "vit",
                "{} labels for pictures {}", batch.labels.size(), to_string(batch.pictures.shape()));
  for (const std::int32_t label : batch.labels) {
    refuse_unless(label >= 0 && label < std::ssize(config_.labels), "vit", "label {} is not one of {} classes", label,
                  config_.labels.size());
  }
}

LossSum Vit::loss(const LabelledPictures& batch) const {
  check_labels(batch);
  const Tensor x = features(forward(batch.pictures));
  const CrossEntropy sum =
      cross_entropy({.weight = classifier_weight_.value, .bias = classifier_bias_.value}, x, batch.labels);
  LossSum total{.sum = sum.nll, .nll = sum.nll, .count = sum.targets};
  const Tensor rows = classify(x, 0);
  const auto count = [&]<class T>(T) {
    for (std::size_t b = 0; b < batch.labels.size(); ++b) {
      const T* row = rows.data<T>() + static_cast<std::int64_t>(b) * rows.size(1);
      total.metric += std::max_element(row, row + rows.size(1)) - row == batch.labels[b];
    }
  };
  visit_f32_f64(rows.dtype(), count);
  return total;
}

LossSum Vit::backward(const LabelledPictures& batch, const VitTrainingOptions& options) {
  check_labels(batch);
  const Dropout dropout{.p = options.dropout, .seed = options.seed};
  const Dropout at_embeddings = dropout_at(dropout, kVitEmbeddings);
  const Dropout at_encoder = dropout_at(dropout, kVitEncoder);
  Tensor x = embeddings_.forward(batch.pictures);
  const Dims rows{x.element_count() / config_.model_dim, config_.model_dim};
  drop(at_embeddings, x.view().reshape(rows), x.view().reshape(rows), 0);
  EncoderSaved saved;
  const Tensor hidden = encoder_.forward(x, {}, at_encoder, saved);
  const Tensor taken = features(hidden);
  Tensor grad_taken = Tensor::zeros(taken.shape(), taken.dtype());
  const CrossEntropy sum = cross_entropy(
      {.weight = classifier_weight_.value, .bias = classifier_bias_.value}, taken, batch.labels,
      {.smoothing = options.label_smoothing},
      {.hidden = grad_taken, .weight = gradient_view(classifier_weight_), .bias = gradient_view(classifier_bias_)});
  Tensor grad = encoder_.backward(x, {}, at_encoder, saved, features_backward(grad_taken, hidden.shape()));
  drop(at_embeddings, grad.view().reshape(rows), grad.view().reshape(rows), 0);
  embeddings_.backward(batch.pictures, grad);
  return {.sum = sum.loss, .nll = sum.nll, .count = sum.targets};
}

void Vit::visit(const ParameterVisitor& visitor) const {
  embeddings_.visit(visitor, kEmbeddings);
  encoder_.visit(visitor);
  if (config_.labels.empty()) return;
  visitor(kWeight, classifier_weight_);
  visitor(kBias, classifier_bias_);
}

void Vit::update(const ParameterUpdater& updater) {
  embeddings_.update(updater, kEmbeddings);
  encoder_.update(updater);
  if (config_.labels.empty()) return;
  updater(kWeight, classifier_weight_);
  updater(kBias, classifier_bias_);
}

}  // namespace qkv
