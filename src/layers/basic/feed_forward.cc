// FeedForward: matrix products with an activation, and a gate if there is one, between them, forward and backward.
#include "qkv/layers/feed_forward.h"

#include <algorithm>

#include "core/mathematics.h"
#include "core/visit_dtype.h"
#include "layers/basic/rows.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows that pass through both products together: the wide intermediate of so many stays in the second-level cache.
constexpr std::int64_t kBlockRows = 128;
// Some ten microseconds of activation.
constexpr std::int64_t kTaskElements = 1 << 15;

// body(begin, count) for parts of `elements` elements.
template <class Body>
void for_each_block(std::int64_t elements, int threads, const Body& body) {
  parallel_for(divide_up(elements, kTaskElements), threads, [&](std::int64_t task, int) {
    body(task * kTaskElements, std::min(kTaskElements, elements - task * kTaskElements));
  });
}

void activate_all(Activation activation, const MutableTensorView& x, int threads) {
  const auto run = [&]<class T>(T) {
    for_each_block(x.element_count(), threads,
                   [&](std::int64_t begin, std::int64_t count) { activate(activation, x.data<T>() + begin, count); });
  };
  visit_f32_f64(x.dtype(), run);
}

// out = x * factor, which nobody has to give: without it out stays.
void multiply_all(const TensorView& x, const TensorView& factor, const MutableTensorView& out, int threads) {
  if (!factor) return;
  const auto run = [&]<class T>(T) {
    for_each_block(x.element_count(), threads, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i) out.data<T>()[i] = x.data<T>()[i] * factor.data<T>()[i];
    });
  };
  visit_f32_f64(x.dtype(), run);
}

// gradient *= the derivative at x.
void through_activation(Activation activation, const TensorView& x, const MutableTensorView& gradient, int threads) {
  const auto run = [&]<class T>(T) {
    for_each_block(x.element_count(), threads, [&](std::int64_t begin, std::int64_t count) {
      activate_backward(activation, x.data<T>() + begin, gradient.data<T>() + begin, count);
    });
  };
  visit_f32_f64(x.dtype(), run);
}

// Some rows of what a gate takes part in; not given if there is none.
MutableTensorView gate_rows(Tensor& gate, std::int64_t begin, std::int64_t end) {
  return gate.element_count() > 0 ? gate.view().slice(0, begin, end) : MutableTensorView();
}
TensorView gate_rows(const Tensor& gate, std::int64_t begin, std::int64_t end) {
  return gate.element_count() > 0 ? gate.view().slice(0, begin, end) : TensorView();
}

}  // namespace

FeedForward::FeedForward(const FeedForwardConfig& config, Weights& weights, const std::string& scope)
    : config_(config),
      first_({.in = config.model_dim, .out = config.ff_dim, .bias = config.bias}, weights, scope + "linear1."),
      second_({.in = config.ff_dim, .out = config.model_dim, .bias = config.bias}, weights, scope + "linear2.") {
  if (!config.gated) return;
  third_.emplace(LinearConfig{.in = config.model_dim, .out = config.ff_dim, .bias = config.bias}, weights,
                 scope + "linear3.");
}

Tensor FeedForward::activated(const TensorView& rows, int threads) const {
  Tensor wide = first_.forward(rows, threads);
  activate_all(config_.activation, wide, threads);
  if (third_) multiply_all(wide, third_->forward(rows, threads), wide, threads);
  return wide;
}

Tensor FeedForward::forward(const TensorView& x, int threads) const {
  const LayerRows rows("feed_forward", x, config_.model_dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const MutableTensorView out_rows = out.view().reshape({rows.count(), config_.model_dim});
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    second_.forward(activated(rows.view().slice(0, begin, end), threads), out_rows.slice(0, begin, end), threads);
  });
  return out;
}

void FeedForward::forward(const NormedRows& x, const RowSink& put, int threads) const {
  const NormedBlocks rows("feed_forward", x, config_.model_dim);
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    Tensor normed;
    put(begin, second_.forward(activated(rows.block(begin, end, normed, threads), threads), threads));
  });
}

// As in forward, but that the wide rows are kept. They pass in blocks through the activation and the second product.
Tensor FeedForward::forward(const TensorView& x, const Dropout& dropout, FeedForwardSaved& saved, int threads) const {
  const LayerRows rows("feed_forward", x, config_.model_dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  saved.wide = Tensor::uninitialized({rows.count(), config_.ff_dim}, x.dtype());
  if (third_) saved.gate = Tensor::uninitialized(saved.wide.shape(), x.dtype());
  const MutableTensorView out_rows = out.view().reshape({rows.count(), config_.model_dim});
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    const TensorView in = rows.view().slice(0, begin, end);
    const MutableTensorView wide = saved.wide.view().slice(0, begin, end), gate = gate_rows(saved.gate, begin, end);
    first_.forward(in, wide, threads);
    if (third_) third_->forward(in, gate, threads);
    Tensor active = Tensor::copy(wide);
    activate_all(config_.activation, active, threads);
    multiply_all(active, gate, active, threads);
    drop(dropout, active, active, threads, begin);
    second_.forward(active, out_rows.slice(0, begin, end), threads);
  });
  return out;
}

void FeedForward::backward(const TensorView& x, const Dropout& dropout, const FeedForwardSaved& saved,
                           const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const LayerRows rows("feed_forward", x, config_.model_dim), grad_rows("feed_forward", grad_out, config_.model_dim);
  const auto like_wide = [&] { return Tensor::uninitialized(saved.wide.shape(), saved.wide.dtype()); };
  Tensor active = like_wide(), grad_wide = like_wide(), grad_gate = third_ ? like_wide() : Tensor();
  const PackedMatrix back = second_.pack_for_backward(threads);
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    const TensorView wide = saved.wide.view().slice(0, begin, end), gate = gate_rows(saved.gate, begin, end);
    const MutableTensorView active_part = active.view().slice(0, begin, end);
    convert(wide, active_part);
    activate_all(config_.activation, active_part, threads);
    const MutableTensorView gradient = grad_wide.view().slice(0, begin, end);
    matmul(grad_rows.view().slice(0, begin, end), back, gradient, {.threads = threads});
    drop(dropout, gradient, gradient, threads, begin);
    if (third_) multiply_all(gradient, active_part, gate_rows(grad_gate, begin, end), threads);
    multiply_all(gradient, gate, gradient, threads);
    through_activation(config_.activation, wide, gradient, threads);
    multiply_all(active_part, gate, active_part, threads);
    drop(dropout, active_part, active_part, threads, begin);
  });
  second_.backward(active, grad_rows.view(), {}, threads);
  const MutableTensorView to = grad_x ? output_rows("feed_forward", "grad_x", grad_x, x.shape()) : grad_x;
  first_.backward(rows.view(), grad_wide, to, threads);
  if (third_) third_->backward(rows.view(), grad_gate, to, threads);
}

void FeedForward::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  first_.visit(visitor, scope + "linear1.");
  second_.visit(visitor, scope + "linear2.");
  if (third_) third_->visit(visitor, scope + "linear3.");
}

void FeedForward::update(const ParameterUpdater& updater, const std::string& scope) {
  first_.update(updater, scope + "linear1.");
  second_.update(updater, scope + "linear2.");
  if (third_) third_->update(updater, scope + "linear3.");
}

}  // namespace qkv
