// LayerNorm: checks its input and runs the kernels of layer and RMS norms.
#include "qkv/layers/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "ops/rowwise/row_kernels.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Some ten microseconds of work: above the price of handing it to a thread.
constexpr std::int64_t kNormTaskElements = 1 << 16;

std::int64_t chunk_rows(std::int64_t size) { return std::max<std::int64_t>(1, kNormTaskElements / size); }

std::int64_t chunk_count(std::int64_t rows, std::int64_t size) {
  return (rows + chunk_rows(size) - 1) / chunk_rows(size);
}

// body(chunk, begin, end) for the rows of each chunk; chunks are the same for any number of threads.
template <class Body>
void for_each_chunk(std::int64_t rows, std::int64_t size, int threads, const Body& body) {
  parallel_for(chunk_count(rows, size), threads, [&](std::int64_t chunk, int) {
    const std::int64_t begin = chunk * chunk_rows(size);
    body(chunk, begin, std::min(begin + chunk_rows(size), rows));
  });
}

}  // namespace

LayerNorm::LayerNorm(const LayerNormConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("layer_norm", "dim", config.dim);
  if (!(config.epsilon >= 0) || !std::isfinite(config.epsilon)) {
    refuse("layer_norm", "epsilon is {}; it must be finite, 0 or more", config.epsilon);
  }
  weight_.value = weights.take(scope + "weight", {config.dim});
  if (config.bias) bias_.value = weights.take(scope + "bias", {config.dim});
}

Tensor LayerNorm::forward(const TensorView& x, const TensorView& added, int threads) const {
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  run(x, added, {}, out, threads);
  return out;
}

void LayerNorm::forward(const TensorView& x, const TensorView& added, const MutableTensorView& out, int threads) const {
  check("the output", out, x.shape());
  refuse_unless(out.is_row_major(), "layer_norm", "the output must be row-major");
  run(x, added, {}, out, threads);
}

Tensor LayerNorm::add_forward(const TensorView& x, Tensor& sum, int threads) const {
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  run(x, sum, sum, out, threads);
  return out;
}

void LayerNorm::check(const char* name, const TensorView& view, const Dims& shape) const {
  if (view.shape() != shape) {
    refuse("layer_norm", "the input is {}, {} {}; they must be equal", to_string(shape), name, to_string(view.shape()));
  }
  if (view.dtype() != weight_.value.dtype()) {
    refuse("layer_norm", "{} is {}, the weights are {}; they must agree", name, name_of(view.dtype()),
           name_of(weight_.value.dtype()));
  }
}

void LayerNorm::run(const TensorView& x, const TensorView& added, const MutableTensorView& sum,
                    const MutableTensorView& out, int threads) const {
  check("the input", x, x.shape());
  if (added) check("what is added", added, x.shape());
  const LayerRows rows("layer_norm", x, config_.dim), added_rows("layer_norm", added ? added : x, config_.dim);
  const auto normalize = [&]<class T>(T) {
    const LayerNormRows<T> all{.x = rows.view().data<T>(),
                               .x_stride = rows.view().stride(0),
                               .added = added ? added_rows.view().data<T>() : nullptr,
                               .added_stride = added_rows.view().stride(0),
                               .weight = weight_.value.data<T>(),
                               .bias = config_.bias ? bias_.value.data<T>() : nullptr,
                               .sum = sum ? sum.data<T>() : nullptr,
                               .out = out.data<T>(),
                               .rows = rows.count(),
                               .size = config_.dim,
                               .epsilon = config_.epsilon,
                               .centred = config_.normalization == Normalization::layer};
    for_each_chunk(rows.count(), config_.dim, threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      LayerNormRows<T> some = all;
      some.x += begin * all.x_stride;
      if (all.added != nullptr) some.added += begin * all.added_stride;
      if (all.sum != nullptr) some.sum += begin * all.size;
      some.out += begin * all.size;
      some.rows = end - begin;
      layer_norm_rows(some);
    });
  };
  visit_f32_f64(x.dtype(), normalize);
}

void LayerNorm::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x,
                         int threads) {
  check("the input", x, x.shape());
  check("the gradient", grad_out, x.shape());
  const LayerRows rows("layer_norm", x, config_.dim), grad_rows("layer_norm", grad_out, config_.dim);
  const MutableTensorView output = grad_x ? output_rows("layer_norm", "grad_x", grad_x, x.shape()) : grad_x;
  const auto run_backward = [&]<class T>(T) {
    // Each chunk of rows sums for itself, into rows [weight, bias]; the chunks are added in order.
    Tensor sums = Tensor::zeros({chunk_count(rows.count(), config_.dim), 2, config_.dim}, x.dtype());
    for_each_chunk(rows.count(), config_.dim, threads, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
      T* own = sums.data<T>() + chunk * 2 * config_.dim;
      layer_norm_backward_rows({.s = rows.view().data<T>() + begin * rows.view().stride(0),
                                .s_stride = rows.view().stride(0),
                                .grad_out = grad_rows.view().data<T>() + begin * grad_rows.view().stride(0),
                                .grad_out_stride = grad_rows.view().stride(0),
                                .weight = weight_.value.data<T>(),
                                .grad_s = output ? output.data<T>() + begin * output.stride(0) : nullptr,
                                .grad_s_stride = output ? output.stride(0) : 0,
                                .grad_weight = own,
                                .grad_bias = own + config_.dim,
                                .rows = end - begin,
                                .size = config_.dim,
                                .epsilon = config_.epsilon,
                                .centred = config_.normalization == Normalization::layer});
    });
    const auto add_to = [&](Parameter& parameter, int which) {
      if (!parameter.has_gradient()) return;
      T* to = parameter.gradient.data<T>();
      for (std::int64_t chunk = 0; chunk < sums.size(0); ++chunk) {
        const T* own = sums.data<T>() + (chunk * 2 + which) * config_.dim;
        for (std::int64_t i = 0; i < config_.dim; ++i) to[i] += own[i];
      }
    };
    add_to(weight_, 0);
    if (config_.bias) add_to(bias_, 1);
  };
  visit_f32_f64(x.dtype(), run_backward);
}

void LayerNorm::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(weight_, scope + "weight");
  if (config_.bias) walk(bias_, scope + "bias");
}

}  // namespace qkv
