// BatchNorm: statistics of the channels, their running means, and the gradients through both.
#include "lab/layers/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Rows that are summed for themselves, before the sums of such blocks are added in order.
constexpr std::int64_t kSummedRows = 512;
// Elements of a task that only maps: some ten microseconds.
constexpr std::int64_t kMappedElements = 1 << 16;

// The sums over all rows of `kSums` numbers per channel, in double: add(row, sums) adds those of one row to
// sums [kSums][dim].
template <int kSums, class Add>
Tensor sum_rows(std::int64_t rows, std::int64_t dim, int threads, const Add& add) {
  const std::int64_t blocks = divide_up(rows, kSummedRows);
  Tensor parts = Tensor::zeros({blocks, kSums, dim}, Dtype::f64);
  parallel_for(blocks, threads, [&](std::int64_t block, int) {
    double* own = parts.data<double>() + block * kSums * dim;
    const std::int64_t end = std::min((block + 1) * kSummedRows, rows);
    for (std::int64_t row = block * kSummedRows; row < end; ++row) add(row, own);
  });
  Tensor sums = Tensor::zeros({kSums, dim}, Dtype::f64);
  double* total = sums.data<double>();
  for (std::int64_t block = 0; block < blocks; ++block) {
    const double* own = std::as_const(parts).data<double>() + block * kSums * dim;
    for (std::int64_t i = 0; i < kSums * dim; ++i) total[i] += own[i];
  }
  return sums;
}

// map(row) for all rows.
template <class Map>
void map_rows(std::int64_t rows, std::int64_t dim, int threads, const Map& map) {
  const std::int64_t of_task = std::max<std::int64_t>(1, kMappedElements / dim);
  parallel_for(divide_up(rows, of_task), threads, [&](std::int64_t task, int) {
    for (std::int64_t row = task * of_task; row < std::min((task + 1) * of_task, rows); ++row) map(row);
  });
}

// The sums of squares around the mean that is found on the way.
template <class T>
Tensor squares_around_mean(const TensorView& x, Tensor& mean, int threads) {
  const std::int64_t rows = x.size(0), dim = x.size(1), stride = x.stride(0);
  const T* first = x.data<T>();
  mean = sum_rows<1>(rows, dim, threads, [&](std::int64_t row, double* sum) {
    const T* from = first + row * stride;
    for (std::int64_t c = 0; c < dim; ++c) sum[c] += static_cast<double>(from[c]);
  });
  double* centre = mean.data<double>();
  for (std::int64_t c = 0; c < dim; ++c) centre[c] /= static_cast<double>(rows);
  return sum_rows<1>(rows, dim, threads, [&](std::int64_t row, double* sum) {
    const T* from = first + row * stride;
    for (std::int64_t c = 0; c < dim; ++c) {
      const double off = static_cast<double>(from[c]) - centre[c];
      sum[c] += off * off;
    }
  });
}

// The running value moves towards that of a batch.
void move(Parameter& running, const Tensor& own, double momentum) {
  const auto blend = [&]<class T>(T) {
    T* to = running.value.data<T>();
    const double* from = own.data<double>();
    for (std::int64_t c = 0; c < own.element_count(); ++c) {
      to[c] = static_cast<T>((1 - momentum) * static_cast<double>(to[c]) + momentum * from[c]);
    }
  };
  visit_f32_f64(running.value.dtype(), blend);
}

void add_sums(Parameter& parameter, const double* sums) {
  if (!parameter.has_gradient()) return;
  const auto add = [&]<class T>(T) {
    T* to = parameter.gradient.data<T>();
    for (std::int64_t c = 0; c < parameter.gradient.element_count(); ++c) to[c] += static_cast<T>(sums[c]);
  };
  visit_f32_f64(parameter.gradient.dtype(), add);
}

void check_norm_type(const char* name, const TensorView& view, const Parameter& weight) {
  if (view.dtype() == weight.value.dtype()) return;
  refuse("batch_norm", "{} is {}, the weights are {}; they must agree", name, name_of(view.dtype()),
         name_of(weight.value.dtype()));
}

}  // namespace

BatchNorm::BatchNorm(const BatchNormConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("batch_norm", "dim", config.dim);
  if (!(config.epsilon >= 0) || !std::isfinite(config.epsilon)) {
    refuse("batch_norm", "epsilon is {}; it must be finite, 0 or more", config.epsilon);
  }
  if (!(config.momentum >= 0 && config.momentum <= 1)) {
    refuse("batch_norm", "momentum is {}; it must be 0 to 1", config.momentum);
  }
  weight_.value = weights.take(scope + "weight", {config.dim});
  bias_.value = weights.take(scope + "bias", {config.dim});
  running_mean_.value = weights.take(scope + "running_mean", {config.dim});
  running_var_.value = weights.take(scope + "running_var", {config.dim});
  weights.ignore(scope + "num_batches_tracked");
}

BatchNormSaved BatchNorm::running() const {
  BatchNormSaved statistics{.mean = convert(running_mean_.value, Dtype::f64),
                            .inverse_deviation = convert(running_var_.value, Dtype::f64)};
  double* scale = statistics.inverse_deviation.data<double>();
  for (std::int64_t c = 0; c < config_.dim; ++c) scale[c] = 1 / std::sqrt(scale[c] + config_.epsilon);
  return statistics;
}

Tensor BatchNorm::normalize(const TensorView& x, const BatchNormSaved& statistics, int threads) const {
  const LayerRows rows("batch_norm", x, config_.dim);
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const auto run = [&]<class T>(T) {
    const double* mean = statistics.mean.data<double>();
    const double* scale = statistics.inverse_deviation.data<double>();
    const T *weight = weight_.value.data<T>(), *bias = bias_.value.data<T>(), *first = rows.view().data<T>();
    T* const first_out = out.data<T>();
    map_rows(rows.count(), config_.dim, threads, [&](std::int64_t row) {
      const T* from = first + row * rows.view().stride(0);
      T* to = first_out + row * config_.dim;
      for (std::int64_t c = 0; c < config_.dim; ++c) {
        const double normal = (static_cast<double>(from[c]) - mean[c]) * scale[c];
        to[c] = static_cast<T>(normal * static_cast<double>(weight[c]) + static_cast<double>(bias[c]));
      }
    });
  };
  visit_f32_f64(x.dtype(), run);
  return out;
}

Tensor BatchNorm::forward(const TensorView& x, int threads) const {
  check_norm_type("the input", x, weight_);
  return normalize(x, running(), threads);
}

Tensor BatchNorm::forward(const TensorView& x, BatchNormSaved& saved, int threads) {
  check_norm_type("the input", x, weight_);
  const LayerRows rows("batch_norm", x, config_.dim);
  const std::int64_t count = rows.count();
  if (count < 2) refuse("batch_norm", "training on {} of {} rows; a variance needs 2", to_string(x.shape()), count);
  Tensor squares =
      visit_f32_f64(x.dtype(), [&]<class T>(T) { return squares_around_mean<T>(rows.view(), saved.mean, threads); });
  saved.inverse_deviation = squares;
  double *own = squares.data<double>(), *scale = saved.inverse_deviation.data<double>();
  for (std::int64_t c = 0; c < config_.dim; ++c) {
    scale[c] = 1 / std::sqrt(own[c] / static_cast<double>(count) + config_.epsilon);
    own[c] /= static_cast<double>(count - 1);
  }
  move(running_mean_, saved.mean, config_.momentum);
  move(running_var_, squares, config_.momentum);
  return normalize(x, saved, threads);
}

void BatchNorm::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x,
                         int threads) {
  run_backward(x, running(), Statistics::running, grad_out, grad_x, threads);
}

void BatchNorm::backward(const TensorView& x, const BatchNormSaved& saved, const TensorView& grad_out,
                         const MutableTensorView& grad_x, int threads) {
  if (saved.mean.element_count() != config_.dim) {
    refuse("batch_norm", "what is saved has {} channels; it must have {}", saved.mean.element_count(), config_.dim);
  }
  run_backward(x, saved, Statistics::own, grad_out, grad_x, threads);
}

void BatchNorm::run_backward(const TensorView& x, const BatchNormSaved& saved, Statistics statistics,
                             const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  check_norm_type("the input", x, weight_);
  check_norm_type("the gradient", grad_out, weight_);
  if (grad_out.shape() != x.shape()) {
    refuse("batch_norm", "the gradient is {}; it must be {}", to_string(grad_out.shape()), to_string(x.shape()));
  }
  const LayerRows rows("batch_norm", x, config_.dim), grad_rows("batch_norm", grad_out, config_.dim);
  if (grad_x) check_norm_type("grad_x", grad_x, weight_);
  const MutableTensorView output = grad_x ? output_rows("batch_norm", "grad_x", grad_x, x.shape()) : grad_x;
  const std::int64_t dim = config_.dim, count = rows.count();
  const double* mean = saved.mean.data<double>();
  const double* scale = saved.inverse_deviation.data<double>();
  const auto run = [&]<class T>(T) {
    const T *first = rows.view().data<T>(), *first_grad = grad_rows.view().data<T>();
    const std::int64_t stride = rows.view().stride(0), grad_stride = grad_rows.view().stride(0);
    // Of the gradients, and of their products with what was normalised.
    const Tensor sums = sum_rows<2>(count, dim, threads, [&](std::int64_t row, double* sum) {
      const T *from = first + row * stride, *grad = first_grad + row * grad_stride;
      for (std::int64_t c = 0; c < dim; ++c) {
        const auto g = static_cast<double>(grad[c]);
        sum[c] += g;
        sum[dim + c] += g * ((static_cast<double>(from[c]) - mean[c]) * scale[c]);
      }
    });
    add_sums(bias_, sums.data<double>());
    add_sums(weight_, sums.data<double>() + dim);
    if (!output) return;
    // What all rows share through their statistics; running ones do not depend on them.
    Tensor shared = Tensor::zeros({2, dim}, Dtype::f64);
    if (statistics == Statistics::own) {
      for (std::int64_t i = 0; i < 2 * dim; ++i) {
        shared.data<double>()[i] = sums.data<double>()[i] / static_cast<double>(count);
      }
    }
    const double *mean_grad = std::as_const(shared).data<double>(), *mean_product = mean_grad + dim;
    const T* weight = weight_.value.data<T>();
    T* const first_output = output.data<T>();
    map_rows(count, dim, threads, [&](std::int64_t row) {
      const T *from = first + row * stride, *grad = first_grad + row * grad_stride;
      T* to = first_output + row * output.stride(0);
      for (std::int64_t c = 0; c < dim; ++c) {
        const double normal = (static_cast<double>(from[c]) - mean[c]) * scale[c];
        const double own = static_cast<double>(grad[c]) - mean_grad[c];
        // Without shared means nothing but the row's own gradient: a NaN of x stays out of it.
        const double through = mean_product[c] == 0 ? 0 : normal * mean_product[c];
        to[c] += static_cast<T>(static_cast<double>(weight[c]) * scale[c] * (own - through));
      }
    });
  };
  visit_f32_f64(x.dtype(), run);
}

void BatchNorm::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
  visitor(scope + "bias", bias_);
  visitor(scope + "running_mean", running_mean_);
  visitor(scope + "running_var", running_var_);
}

void BatchNorm::update(const ParameterUpdater& updater, const std::string& scope) {
  updater(scope + "weight", weight_);
  updater(scope + "bias", bias_);
  updater(scope + "running_mean", running_mean_);
  updater(scope + "running_var", running_var_);
  // Statistics, which no optimizer may move.
  running_mean_.gradient = running_var_.gradient = {};
}

}  // namespace qkv
