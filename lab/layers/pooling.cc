// Pool1d and Pool2d: the largest or the mean of every window, and their gradients.
#include "lab/layers/pooling.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/windows.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr std::int64_t kPooledRows = 256, kPooledChannels = 64;  // of a task

WindowAxis pooling_axis(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return {.kernel = kernel, .stride = stride, .before = padding, .after = padding};
}

void check_pooling(std::string_view layer, const WindowAxis& axis) {
  check_axis(layer, axis);
  if (2 * axis.before > axis.kernel) {
    refuse(layer, "padding is {}; it must be at most half of the kernel, {}", axis.before, axis.kernel);
  }
}

// Of an input whose windows have been checked.
void check_pooled(std::string_view layer, const TensorView& x) {
  check_size(layer, "channels", x.size(-1));
  if (x.dtype() == Dtype::f32 || x.dtype() == Dtype::f64) return;
  refuse(layer, "the input is {}; it must be f32 or f64", name_of(x.dtype()));
}

// Calls f(row of the input) for every one that a window sees, in order.
template <class F>
void for_each_seen(const Windows& windows, const Window& window, const F& f) {
  windows.for_each_run(window, [&](std::int64_t, std::int64_t row, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) f(row + i);
  });
}

// A NaN is larger than anything.
template <class T>
bool is_larger(T value, T than) {
  return value > than || value != value;
}

template <class T>
void pool_window(const Windows& windows, const Window& window, PoolKind pooling, const TensorView& x, T* out) {
  const std::int64_t channels = x.size(1);
  bool empty = true;
  for_each_seen(windows, window, [&](std::int64_t row) {
    const T* from = x.data<T>() + row * x.stride(0);
    if (empty) {
      std::copy_n(from, channels, out);
    } else if (pooling == PoolKind::average) {
      for (std::int64_t c = 0; c < channels; ++c) out[c] += from[c];
    } else {
      for (std::int64_t c = 0; c < channels; ++c) out[c] = is_larger(from[c], out[c]) ? from[c] : out[c];
    }
    empty = false;
  });
  if (pooling == PoolKind::max) return;
  for (std::int64_t c = 0; c < channels; ++c) out[c] /= static_cast<T>(windows.taps());
}

// grad_x += the gradient of one window, for the channels first to last.
template <class T>
void add_pooled(const Windows& windows, const Window& window, PoolKind pooling, const TensorView& x, const T* grad_out,
                const MutableTensorView& grad_x, std::int64_t first, std::int64_t last) {
  T* to = grad_x.data<T>();
  const std::int64_t stride = grad_x.stride(0);
  if (pooling == PoolKind::average) {
    for_each_seen(windows, window, [&](std::int64_t row) {
      for (std::int64_t c = first; c < last; ++c) to[row * stride + c] += grad_out[c] / static_cast<T>(windows.taps());
    });
    return;
  }
  std::int64_t largest[kPooledChannels];
  std::fill_n(largest, last - first, std::int64_t{-1});
  const T* from = x.data<T>();
  const std::int64_t x_stride = x.stride(0);
  for_each_seen(windows, window, [&](std::int64_t row) {
    for (std::int64_t c = first; c < last; ++c) {
      std::int64_t& best = largest[c - first];
      if (best < 0 || is_larger(from[row * x_stride + c], from[best * x_stride + c])) best = row;
    }
  });
  for (std::int64_t c = first; c < last; ++c) to[largest[c - first] * stride + c] += grad_out[c];
}

Tensor pool(std::string_view layer, const Windows& windows, PoolKind pooling, const TensorView& x, int threads) {
  check_pooled(layer, x);
  const std::int64_t channels = x.size(-1);
  const LayerRows rows(layer, x, channels);
  Tensor out = Tensor::uninitialized(windows.out_shape(channels), x.dtype());
  const auto run = [&]<class T>(T) {
    T* const first = out.data<T>();
    parallel_for(divide_up(windows.rows(), kPooledRows), threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * kPooledRows, end = std::min(begin + kPooledRows, windows.rows());
      windows.for_each(begin, end, [&](std::int64_t row, const Window& window) {
        pool_window<T>(windows, window, pooling, rows.view(), first + row * channels);
      });
    });
  };
  visit_f32_f64(x.dtype(), run);
  return out;
}

// Tasks share no element: pictures apart, or channels apart.
void pool_backward(std::string_view layer, const Windows& windows, PoolKind pooling, const TensorView& x,
                   const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  check_pooled(layer, x);
  const std::int64_t channels = x.size(-1);
  const Dims out_shape = windows.out_shape(channels);
  if (grad_out.shape() != out_shape) {
    refuse(layer, "the gradient is {}; it must be {}", to_string(grad_out.shape()), to_string(out_shape));
  }
  if (grad_out.dtype() != x.dtype() || grad_x.dtype() != x.dtype()) {
    refuse(layer, "the input is {}, the gradient {}, grad_x {}; they must agree", name_of(x.dtype()),
           name_of(grad_out.dtype()), name_of(grad_x.dtype()));
  }
  const LayerRows rows(layer, x, channels), grad_rows(layer, grad_out, channels);
  const MutableTensorView output = output_rows(layer, "grad_x", grad_x, x.shape());
  const std::vector<std::int64_t> cuts = windows.pictures_between(0, windows.rows());
  const std::int64_t slices = divide_up(channels, kPooledChannels);
  const auto run = [&]<class T>(T) {
    const T* gradients = grad_rows.view().data<T>();
    const std::int64_t stride = grad_rows.view().stride(0);
    parallel_for((static_cast<std::int64_t>(cuts.size()) - 1) * slices, threads, [&](std::int64_t task, int) {
      const auto picture = static_cast<std::size_t>(task / slices);
      const std::int64_t first = task % slices * kPooledChannels, last = std::min(first + kPooledChannels, channels);
      windows.for_each(cuts[picture], cuts[picture + 1], [&](std::int64_t row, const Window& window) {
        add_pooled<T>(windows, window, pooling, rows.view(), gradients + row * stride, output, first, last);
      });
    });
  };
  visit_f32_f64(x.dtype(), run);
}

WindowAxis axis_of(const Pool1dConfig& config) { return pooling_axis(config.kernel, config.stride, config.padding); }

WindowAxis vertical(const Pool2dConfig& config) {
  return pooling_axis(config.kernel.height, config.stride.height, config.padding.height);
}

WindowAxis horizontal(const Pool2dConfig& config) {
  return pooling_axis(config.kernel.width, config.stride.width, config.padding.width);
}

Windows windows_of(const Pool1dConfig& config, const Sequences& x) {
  return Windows::of_sequences("pool1d", axis_of(config), x, x.rows.rank() > 0 ? x.rows.size(-1) : 0);
}

Windows windows_of(const Pool2dConfig& config, const TensorView& x) {
  return Windows::of_pictures("pool2d", vertical(config), horizontal(config), x, x.rank() > 0 ? x.size(-1) : 0);
}

}  // namespace

Pool1d::Pool1d(const Pool1dConfig& config) : config_(config) {
  if (config_.stride == 0) config_.stride = config_.kernel;
  check_pooling("pool1d", axis_of(config_));
}

std::int64_t Pool1d::out_length(std::int64_t length) const { return axis_of(config_).count(length); }

Tensor Pool1d::out_offsets(const TensorView& offsets) const {
  return window_offsets("pool1d", axis_of(config_), offsets);
}

Tensor Pool1d::forward(const Sequences& x, int threads) const {
  return pool("pool1d", windows_of(config_, x), config_.pooling, x.rows, threads);
}

void Pool1d::backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x,
                      int threads) const {
  pool_backward("pool1d", windows_of(config_, x), config_.pooling, x.rows, grad_out, grad_x, threads);
}

Pool2d::Pool2d(const Pool2dConfig& config) : config_(config) {
  if (config_.stride.height == 0) config_.stride.height = config_.kernel.height;
  if (config_.stride.width == 0) config_.stride.width = config_.kernel.width;
  check_pooling("pool2d", vertical(config_));
  check_pooling("pool2d", horizontal(config_));
}

PictureSize Pool2d::out_size(const PictureSize& size) const {
  return {vertical(config_).count(size.height), horizontal(config_).count(size.width)};
}

Tensor Pool2d::forward(const TensorView& x, int threads) const {
  return pool("pool2d", windows_of(config_, x), config_.pooling, x, threads);
}

void Pool2d::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x,
                      int threads) const {
  pool_backward("pool2d", windows_of(config_, x), config_.pooling, x, grad_out, grad_x, threads);
}

}  // namespace qkv
