// ConvolutionBlock and PictureNetwork, forward and backward.
#include "classifiers/picture_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/layers/cross_entropy.h"

namespace qkv::bench {
namespace {

constexpr const char* kWeight = "classifier.weight";
constexpr const char* kBias = "classifier.bias";

std::string block_scope(std::size_t i) { return fmt::format("block{}.", i); }

Tensor zeros_like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype()); }

void apply_relu(Tensor& x) {
  visit_f32_f64(x.dtype(), [&]<class T>(T) { activate(Activation::relu, x.data<T>(), x.element_count()); });
}

// ReLU is 0 where what came in is not positive, so that its output says as much as its input.
void through_relu(const Tensor& active, Tensor& gradient) {
  const auto run = [&]<class T>(T) {
    activate_backward(Activation::relu, active.data<T>(), gradient.data<T>(), active.element_count());
  };
  visit_f32_f64(active.dtype(), run);
}

// A row for each picture.
Dims rows_shape(const Tensor& x) {
  return {x.size(0), element_count(Dims(std::span(x.shape().begin() + 1, x.shape().end())))};
}

}  // namespace

ConvolutionBlock::ConvolutionBlock(const ConvolutionBlockConfig& config, Weights& weights, const std::string& scope)
    // The bias of the norm is one already.
    : convolution_({.in = config.in, .out = config.out, .kernel = {3, 3}, .padding = {1, 1}, .bias = false}, weights,
                   scope + "convolution."),
      norm_({.dim = config.out}, weights, scope + "norm."),
      pool_({.kernel = {config.pool, config.pool}}) {}

Tensor ConvolutionBlock::forward(const Tensor& x) const {
  Tensor active = norm_.forward(convolution_.forward(x));
  apply_relu(active);
  return pool_.forward(active);
}

Tensor ConvolutionBlock::forward(Tensor x, Saved& saved) {
  saved.x = std::move(x);
  saved.convolved = convolution_.forward(saved.x);
  saved.active = norm_.forward(saved.convolved, saved.statistics);
  apply_relu(saved.active);
  return pool_.forward(saved.active);
}

Tensor ConvolutionBlock::backward(const Saved& saved, const Tensor& grad_out) {
  Tensor grad_active = zeros_like(saved.active);
  pool_.backward(saved.active, grad_out, grad_active);
  through_relu(saved.active, grad_active);
  Tensor grad_convolved = zeros_like(saved.convolved);
  norm_.backward(saved.convolved, saved.statistics, grad_active, grad_convolved);
  Tensor grad_x = zeros_like(saved.x);
  convolution_.backward(saved.x, grad_convolved, grad_x);
  return grad_x;
}

void ConvolutionBlock::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  convolution_.visit(visitor, scope + "convolution.");
  norm_.visit(visitor, scope + "norm.");
}

void ConvolutionBlock::update(const ParameterUpdater& updater, const std::string& scope) {
  convolution_.update(updater, scope + "convolution.");
  norm_.update(updater, scope + "norm.");
}

PictureNetwork::PictureNetwork(const PictureNetworkConfig& config, Weights& weights) : config_(config) {
  PictureSize size = config.picture;
  std::int64_t channels = config.channels;
  for (ConvolutionBlockConfig block : config.blocks) {
    block.in = std::exchange(channels, block.out);
    blocks_.emplace_back(block, weights, block_scope(blocks_.size()));
    size = blocks_.back().out_size(size);
  }
  weight_.value = weights.take(kWeight, {config.classes, size.height * size.width * channels});
  bias_.value = weights.take(kBias, {config.classes});
}

Tensor PictureNetwork::features(const Tensor& pictures) const {
  Tensor x = pictures;
  for (const ConvolutionBlock& block : blocks_) x = block.forward(x);
  return x;
}

Tensor PictureNetwork::logits(const Tensor& features) const {
  Tensor out = Tensor::uninitialized({features.size(0), config_.classes}, features.dtype());
  matmul(features.view().reshape(rows_shape(features)), PackedMatrix(weight_.value.view().transpose(0, 1)), out,
         {.bias = bias_.value});
  return out;
}

LossSum PictureNetwork::loss(const LabelledPictures& batch) const {
  const Tensor x = features(batch.pictures);
  const CrossEntropy sum =
      cross_entropy({.weight = weight_.value, .bias = bias_.value}, x.view().reshape(rows_shape(x)), batch.labels);
  LossSum total{.sum = sum.nll, .nll = sum.nll, .count = sum.targets};
  const Tensor rows = logits(x);
  const auto count = [&]<class T>(T) {
    const T* row = rows.data<T>();
    for (const std::int32_t label : batch.labels) {
      total.metric += std::max_element(row, row + config_.classes) - row == label;
      row += config_.classes;
    }
  };
  visit_f32_f64(rows.dtype(), count);
  return total;
}

LossSum PictureNetwork::backward(const LabelledPictures& batch, std::uint64_t) {
  std::vector<ConvolutionBlock::Saved> saved(blocks_.size());
  Tensor x = batch.pictures;
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].forward(std::move(x), saved[i]);
  Tensor grad = zeros_like(x);
  const CrossEntropy sum = cross_entropy(
      {.weight = weight_.value, .bias = bias_.value}, x.view().reshape(rows_shape(x)), batch.labels,
      {.smoothing = config_.label_smoothing},
      {.hidden = grad.view().reshape(rows_shape(x)), .weight = gradient_view(weight_), .bias = gradient_view(bias_)});
  for (std::size_t i = blocks_.size(); i-- > 0;) grad = blocks_[i].backward(saved[i], grad);
  return {.sum = sum.loss, .nll = sum.nll, .count = sum.targets};
}

void PictureNetwork::visit(const ParameterVisitor& visitor) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].visit(visitor, block_scope(i));
  visitor(kWeight, weight_);
  visitor(kBias, bias_);
}

void PictureNetwork::update(const ParameterUpdater& updater) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].update(updater, block_scope(i));
  updater(kWeight, weight_);
  updater(kBias, bias_);
}

}  // namespace qkv::bench
