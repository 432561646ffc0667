// FeedForward: matrix products with an activation, and a gate if there is one, between them, forward and backward.
#include "qkv/layers/feed_forward.h"

#include <algorithm>
#include <utility>

#include "core/mathematics.h"
#include "core/thread_pool.h"
#include "core/visit_dtype.h"
#include "core/worth_waking.h"
#include "layers/basic/rows.h"
#include "ops/matmul/reduced_product.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows that pass through both products together: the wide intermediate of so many stays in the second-level cache.
constexpr std::int64_t kBlockRows = 128;
// Some ten microseconds of activation.
constexpr std::int64_t kTaskElements = 1 << 15;
// Of the wide rows, computed at once: 64 KiB in f32.
constexpr std::int64_t kChunkElements = 1 << 14;

// body(row) for each row of x [rows, columns], `elements` of them a task.
template <class Body>
void for_each_row(const TensorView& x, std::int64_t elements, int threads, const Body& body) {
  const std::int64_t rows = x.size(0), step = std::max<std::int64_t>(elements / x.size(1), 1);
  parallel_for(divide_up(rows, step), threads, [&](std::int64_t task, int) {
    for (std::int64_t row = task * step; row < std::min(rows, (task + 1) * step); ++row) body(row);
  });
}

// x = activation(x) * gate, which nobody has to give, in one pass, of few rows, too, where threads are awake.
void activate_all(Activation activation, const MutableTensorView& x, const TensorView& gate, int threads) {
  constexpr std::int64_t kActivatedElements = 1 << 12;  // of a task: some microseconds
  constexpr double kElementWork = 40;                   // in multiply-adds
  threads = worth_sharing(threads, kElementWork * static_cast<double>(x.element_count()), 0);
  const auto run = [&]<class T>(T) {
    for_each_row(x, kActivatedElements, threads, [&](std::int64_t row) {
      T* own = x.data<T>() + row * x.stride(0);
      activate(activation, own, x.size(1));
      if (!gate) return;
      const T* factor = gate.data<T>() + row * gate.stride(0);
      for (std::int64_t i = 0; i < x.size(1); ++i) own[i] *= factor[i];
    });
  };
  visit_f32_f64(x.dtype(), run);
}

// out = x * factor, which nobody has to give: without it out stays.
void multiply_all(const TensorView& x, const TensorView& factor, const MutableTensorView& out, int threads) {
  if (!factor) return;
  const auto run = [&]<class T>(T) {
    for_each_row(x, kTaskElements, threads, [&](std::int64_t row) {
      const T *own = x.data<T>() + row * x.stride(0), *other = factor.data<T>() + row * factor.stride(0);
      T* to = out.data<T>() + row * out.stride(0);
      for (std::int64_t i = 0; i < x.size(1); ++i) to[i] = own[i] * other[i];
    });
  };
  visit_f32_f64(x.dtype(), run);
}

// gradient *= the derivative at x.
void through_activation(Activation activation, const TensorView& x, const MutableTensorView& gradient, int threads) {
  const auto run = [&]<class T>(T) {
    for_each_row(x, kTaskElements, threads, [&](std::int64_t row) {
      activate_backward(activation, x.data<T>() + row * x.stride(0), gradient.data<T>() + row * gradient.stride(0),
                        x.size(1));
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

// Dropout of what W2 takes.
Dropout of_activation(const FeedForwardConfig& config, const Dropout& dropout) {
  return config.activation_dropout ? dropout : Dropout{};
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

// Some columns at a time, which the activation and the gate find in the cache; all at once where threads share them.
Tensor FeedForward::activated(const TensorView& rows, int threads) const {
  Tensor wide = Tensor::uninitialized({rows.size(0), config_.ff_dim}, rows.dtype());
  const bool is_shared = !inside_task() && (threads > 0 ? threads : qkv::threads()) > 1;
  const std::int64_t step = is_shared ? config_.ff_dim : first_.columns_at_once(kChunkElements / rows.size(0));
  for (std::int64_t begin = 0; begin < config_.ff_dim; begin += step) {
    const std::int64_t end = std::min(begin + step, config_.ff_dim);
    const MutableTensorView part = wide.view().slice(1, begin, end);
    first_.forward_columns(rows, begin, part, threads);
    Tensor gate;
    if (third_) {
      gate = Tensor::uninitialized(part.shape(), rows.dtype());
      third_->forward_columns(rows, begin, gate, threads);
    }
    activate_all(config_.activation, part, gate_rows(std::as_const(gate), 0, rows.size(0)), threads);
  }
  return wide;
}

std::int64_t FeedForward::block_rows() const {
  return is_reduced(second_.packed().storage()) ? kReducedBlockRows : kBlockRows;
}

void FeedForward::feed(const TensorView& rows, const MutableTensorView& out, int threads) const {
  const PackedMatrix& second = second_.packed();
  if (!is_reduced(second.storage())) return second_.forward(activated(rows, threads), out, threads);
  const auto operands = [](const Linear& linear) { return AffineOperands{linear.packed(), linear.bias()}; };
  const std::optional<AffineOperands> gate = third_ ? std::optional(operands(*third_)) : std::nullopt;
  const auto finish = [&](float* product, const float* factor, std::int64_t count) {
    activate(config_.activation, product, count);
    if (factor != nullptr) multiply_elements(product, factor, count);
  };
  const RoundedRows wide = rounded_product(RoundedRows(rows, second.storage(), threads), operands(first_),
                                           gate ? &*gate : nullptr, finish, threads);
  matmul(wide, second, out, {.bias = second_.bias(), .threads = threads});
}

Tensor FeedForward::forward(const TensorView& x, int threads) const {
  const LayerRows rows("feed_forward", x, config_.model_dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const MutableTensorView out_rows = out.view().reshape({rows.count(), config_.model_dim});
  for_each_row_block(rows.count(), block_rows(), threads, [&](std::int64_t begin, std::int64_t end) {
    feed(rows.view().slice(0, begin, end), out_rows.slice(0, begin, end), threads);
  });
  return out;
}

void FeedForward::forward(const NormedRows& x, const RowSink& put, int threads) const {
  const NormedBlocks rows("feed_forward", x, config_.model_dim);
  for_each_row_block(rows.count(), block_rows(), threads, [&](std::int64_t begin, std::int64_t end) {
    Tensor normed;
    Tensor out = Tensor::uninitialized({end - begin, config_.model_dim}, first_.packed().dtype());
    feed(rows.block(begin, end, normed, threads), out, threads);
    put(begin, out);
  });
}

// As in forward, but that the wide rows are kept. They pass in blocks through the activation and the second product.
Tensor FeedForward::forward(const TensorView& x, const Dropout& dropout, FeedForwardSaved& saved, int threads) const {
  const LayerRows rows("feed_forward", x, config_.model_dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  saved.wide = Tensor::uninitialized({rows.count(), config_.ff_dim}, x.dtype());
  const Dropout own = of_activation(config_, dropout);
  if (third_) saved.gate = Tensor::uninitialized(saved.wide.shape(), x.dtype());
  const MutableTensorView out_rows = out.view().reshape({rows.count(), config_.model_dim});
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    const TensorView in = rows.view().slice(0, begin, end);
    const MutableTensorView wide = saved.wide.view().slice(0, begin, end), gate = gate_rows(saved.gate, begin, end);
    first_.forward(in, wide, threads);
    if (third_) third_->forward(in, gate, threads);
    Tensor active = Tensor::copy(wide);
    activate_all(config_.activation, active, gate, threads);
    drop(own, active, active, threads, begin);
    second_.forward(active, out_rows.slice(0, begin, end), threads);
  });
  return out;
}

void FeedForward::backward(const TensorView& x, const Dropout& dropout, const FeedForwardSaved& saved,
                           const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const LayerRows rows("feed_forward", x, config_.model_dim), grad_rows("feed_forward", grad_out, config_.model_dim);
  const auto like_wide = [&] { return Tensor::uninitialized(saved.wide.shape(), saved.wide.dtype()); };
  const Dropout own = of_activation(config_, dropout);
  Tensor active = like_wide(), grad_wide = like_wide(), grad_gate = third_ ? like_wide() : Tensor();
  const PackedMatrix back = second_.pack_for_backward(threads);
  for_each_row_block(rows.count(), kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    const TensorView wide = saved.wide.view().slice(0, begin, end), gate = gate_rows(saved.gate, begin, end);
    const MutableTensorView active_part = active.view().slice(0, begin, end);
    convert(wide, active_part);
    activate_all(config_.activation, active_part, {}, threads);
    const MutableTensorView gradient = grad_wide.view().slice(0, begin, end);
    matmul(grad_rows.view().slice(0, begin, end), back, gradient, {.threads = threads});
    drop(own, gradient, gradient, threads, begin);
    if (third_) multiply_all(gradient, active_part, gate_rows(grad_gate, begin, end), threads);
    multiply_all(gradient, gate, gradient, threads);
    through_activation(config_.activation, wide, gradient, threads);
    multiply_all(active_part, gate, active_part, threads);
    drop(own, active_part, active_part, threads, begin);
  });
  second_.backward(active, grad_rows.view(), {}, threads);
  const MutableTensorView to = grad_x ? output_rows("feed_forward", "grad_x", grad_x, x.shape()) : grad_x;
  first_.backward(rows.view(), grad_wide, to, threads);
  if (third_) third_->backward(rows.view(), grad_gate, to, threads);
}

void FeedForward::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(first_, scope + "linear1.");
  walk(second_, scope + "linear2.");
  walk(third_, scope + "linear3.");
}

}  // namespace qkv
