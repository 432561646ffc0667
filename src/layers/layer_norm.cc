#include "qkv/layer_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/layer_norm.h"
#include "layers/check_size.h"
#include "layers/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Some ten microseconds of work: above the price of handing it to a thread.
constexpr std::int64_t kTaskElements = 1 << 16;

template <class T>
void normalize(const LayerNormRows<T>& all, int threads) {
  const std::int64_t step = std::max<std::int64_t>(1, kTaskElements / all.size);
  parallel_for((all.rows + step - 1) / step, threads, [&](std::int64_t task, int) {
    const std::int64_t begin = task * step;
    LayerNormRows<T> some = all;
    some.x += begin * all.x_stride;
    if (all.added != nullptr) some.added += begin * all.added_stride;
    some.out += begin * all.size;
    some.rows = std::min(step, all.rows - begin);
    layer_norm_rows(some);
  });
}

}  // namespace

LayerNorm::LayerNorm(const LayerNormConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("layer_norm", "dim", config.dim);
  if (!(config.epsilon >= 0) || !std::isfinite(config.epsilon)) {
    throw std::invalid_argument(fmt::format("layer_norm: epsilon is {}; it must be finite, 0 or more", config.epsilon));
  }
  weight_ = weights.take(scope + "weight", {config.dim});
  if (config.bias) bias_ = weights.take(scope + "bias", {config.dim});
}

Tensor LayerNorm::forward(const TensorView& x, const TensorView& added, int threads) const {
  if (added && added.shape() != x.shape()) {
    throw std::invalid_argument(fmt::format("layer_norm: the input is {}, what is added {}; they must be equal",
                                            to_string(x.shape()), to_string(added.shape())));
  }
  for (const TensorView& view : {x, added ? added : x}) {
    if (view.dtype() != weight_.dtype()) {
      throw std::invalid_argument(fmt::format("layer_norm: the input is {}, the weights are {}; they must agree",
                                              name_of(view.dtype()), name_of(weight_.dtype())));
    }
  }
  const Rows rows("layer_norm", x, config_.dim), added_rows("layer_norm", added ? added : x, config_.dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const auto run = [&]<class T>(T) {
    normalize<T>({.x = rows.view().data<T>(),
                  .x_stride = rows.view().stride(0),
                  .added = added ? added_rows.view().data<T>() : nullptr,
                  .added_stride = added_rows.view().stride(0),
                  .weight = weight_.data<T>(),
                  .bias = config_.bias ? bias_.data<T>() : nullptr,
                  .out = out.data<T>(),
                  .rows = rows.count(),
                  .size = config_.dim,
                  .epsilon = config_.epsilon},
                 threads);
  };
  x.dtype() == Dtype::f64 ? run(double{}) : run(float{});
  return out;
}

void LayerNorm::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
  if (config_.bias) visitor(scope + "bias", bias_);
}

}  // namespace qkv
