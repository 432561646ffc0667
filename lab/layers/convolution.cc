// Conv1d and Conv2d: windows of sequences or pictures are gathered, multiplied by the filters, and the gradients of
// windows added to the rows that they see.
#include "lab/layers/convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/windows.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// Numbers of windows that are gathered and multiplied together: they stay in the second cache, and are work enough for
// a task. Those whose share of the filters' gradient is one product: few enough for the third one. A task that only
// copies.
constexpr std::int64_t kProductNumbers = 1 << 17, kSumNumbers = 1 << 18, kCopyNumbers = 1 << 14;
// Channels of a task that only adds.
constexpr std::int64_t kAddChannels = 64;

// Rows of so many numbers in all.
std::int64_t rows_of(std::int64_t numbers, std::int64_t depth, std::int64_t least, std::int64_t most) {
  return std::clamp(numbers / depth, least, most);
}

// Rows of some channels.
template <class T>
struct Channels {
  T* first;
  std::int64_t stride, count;
};

// Returns the place behind what was copied. A call of memcpy costs more than the few elements that a window of a
// picture with few channels has in a line.
template <class T>
T* copy(const T* from, std::int64_t count, T* to) {
  constexpr std::int64_t kFew = 32;
  if (count > kFew) return std::copy_n(from, count, to);
  for (; count >= 4; count -= 4, from += 4, to += 4) std::memcpy(to, from, 4 * sizeof(T));
  if (count >= 2) {
    std::memcpy(to, from, 2 * sizeof(T));
    from += 2;
    to += 2;
    count -= 2;
  }
  if (count == 1) *to++ = *from;
  return to;
}

// to [end - begin, taps * channels] = the windows begin to end.
template <class T>
void gather(const Windows& windows, std::int64_t begin, std::int64_t end, const Channels<const T>& x, T* to) {
  const std::int64_t depth = windows.taps() * x.count;
  windows.for_each(begin, end, [&](std::int64_t row, const Window& window) {
    T* next = to + (row - begin) * depth;
    T* const last = next + depth;
    T* const first = next;
    windows.for_each_run(window, [&](std::int64_t tap, std::int64_t from, std::int64_t count) {
      for (; next < first + tap * x.count; ++next) *next = 0;
      const T* source = x.first + from * x.stride;
      if (x.stride == x.count) {
        next = copy(source, count * x.count, next);
        return;
      }
      for (std::int64_t i = 0; i < count; ++i) next = copy(source + i * x.stride, x.count, next);
    });
    for (; next < last; ++next) *next = 0;
  });
}

// The rows that the windows begin to end see += channels first to last of those windows' gradients, of row `origin` on.
template <class T>
void scatter(const Windows& windows, std::int64_t origin, std::int64_t begin, std::int64_t end, const T* gradients,
             std::int64_t first, std::int64_t last, const Channels<T>& x) {
  windows.for_each(begin, end, [&](std::int64_t row, const Window& window) {
    const T* own = gradients + (row - origin) * windows.taps() * x.count;
    windows.for_each_run(window, [&](std::int64_t tap, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const T* from = own + (tap + i) * x.count;
        T* sum = x.first + (to + i) * x.stride;
        for (std::int64_t c = first; c < last; ++c) sum[c] += from[c];
      }
    });
  });
}

template <class T>
Channels<const T> channels_of(const TensorView& rows, std::int64_t group, std::int64_t count) {
  return {rows.data<T>() + group * count, rows.stride(0), count};
}

void check_type(std::string_view layer, const char* name, Dtype dtype, const ConvolutionFilters& filters) {
  if (dtype == filters.dtype()) return;
  refuse(layer, "{} is {}, the weights are {}; they must agree", name, name_of(dtype), name_of(filters.dtype()));
}

template <class T>
class Backward {
 public:
  Backward(ConvolutionFilters& filters, const Windows& windows, int threads)
      : filters_(filters), windows_(windows), threads_(threads), depth_(filters.taps() * filters.group_in()) {
    block_rows_ = rows_of(kSumNumbers, depth_, 512, 8192);  // of every batch, as sums depend on it
    block_ = Tensor::uninitialized({std::min(block_rows_, windows.rows()), depth_}, dtype_of<T>);
  }

  // Of one group, block after block.
  void run(std::int64_t group, const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x) {
    const std::int64_t in = filters_.group_in(), out = filters_.group_out();
    const bool wants_weight = filters_.wants_weight_gradient();
    const MutableTensorView bias = filters_.bias_gradient(group);
    Tensor weight;
    MutableTensorView weight_place;
    if (wants_weight) {
      weight = Tensor::zeros({out, depth_}, dtype_of<T>);
      weight_place = weight;
    }
    PackedMatrix to_windows;
    if (grad_x) to_windows = PackedMatrix(filters_.matrix(group), threads_);
    for (std::int64_t begin = 0; begin < windows_.rows(); begin += block_rows_) {
      const std::int64_t end = std::min(begin + block_rows_, windows_.rows());
      const TensorView gradients = grad_out.slice(0, begin, end).slice(1, group * out, (group + 1) * out);
      const MutableTensorView seen = block_.view().slice(0, 0, end - begin);
      if (wants_weight) gather_block(begin, end, channels_of<T>(x, group, in));
      if (wants_weight || bias) {
        PackedRows inputs(seen);
        affine_backward(inputs, {}, gradients, {.weight = weight_place, .bias = bias}, threads_);
      }
      if (!grad_x) continue;
      matmul(gradients, to_windows, seen, {.threads = threads_});
      scatter_block(begin, end, {grad_x.data<T>() + group * in, grad_x.stride(0), in});
    }
    if (wants_weight) filters_.add_weight_gradient(group, weight);
  }

 private:
  void gather_block(std::int64_t begin, std::int64_t end, const Channels<const T>& x) {
    const std::int64_t rows = rows_of(kCopyNumbers, depth_, 1, block_rows_);
    parallel_for(divide_up(end - begin, rows), threads_, [&](std::int64_t task, int) {
      const std::int64_t first = begin + task * rows;
      gather(windows_, first, std::min(first + rows, end), x, block_.data<T>() + task * rows * depth_);
    });
  }

  // Tasks share no element: rows of pictures apart, or channels apart. Each element is added to in the order of rows.
  void scatter_block(std::int64_t begin, std::int64_t end, const Channels<T>& x) {
    const std::vector<std::int64_t> cuts = windows_.pictures_between(begin, end);
    const std::int64_t slices = divide_up(x.count, kAddChannels);
    parallel_for((static_cast<std::int64_t>(cuts.size()) - 1) * slices, threads_, [&](std::int64_t task, int) {
      const auto picture = static_cast<std::size_t>(task / slices);
      const std::int64_t channel = task % slices * kAddChannels;
      scatter(windows_, begin, cuts[picture], cuts[picture + 1], std::as_const(block_).data<T>(), channel,
              std::min(channel + kAddChannels, x.count), x);
    });
  }

  ConvolutionFilters& filters_;
  const Windows& windows_;
  int threads_;
  std::int64_t depth_, block_rows_;
  Tensor block_;
};

// The output, of x [..., in]. std::invalid_argument, naming the layer, if the types differ.
Tensor convolve(std::string_view layer, const ConvolutionFilters& filters, const Windows& windows, const TensorView& x,
                int threads) {
  check_type(layer, "the input", x.dtype(), filters);
  const auto& config = filters.config();
  const LayerRows rows(layer, x, config.in);
  Tensor out = Tensor::uninitialized(windows.out_shape(config.out), x.dtype());
  const MutableTensorView all = out.view().reshape({windows.rows(), config.out});
  const std::int64_t in = filters.group_in(), group_out = filters.group_out(), depth = filters.taps() * in;
  // Enough tasks for all threads, unless a task would be less than a few tiles.
  const std::int64_t share = divide_up(windows.rows(), threads == 0 ? qkv::threads() : threads);
  const std::int64_t of_task = std::min(rows_of(kProductNumbers, depth, 64, 2048), std::max<std::int64_t>(share, 32));
  const auto run = [&]<class T>(T) {
    parallel_for(divide_up(windows.rows(), of_task), threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * of_task, end = std::min(begin + of_task, windows.rows());
      Tensor seen = Tensor::uninitialized({end - begin, depth}, x.dtype());
      for (std::int64_t group = 0; group < config.groups; ++group) {
        gather(windows, begin, end, channels_of<T>(rows.view(), group, in), seen.data<T>());
        matmul(seen, filters.part(group), all.slice(0, begin, end).slice(1, group * group_out, (group + 1) * group_out),
               {.bias = filters.bias(group), .threads = 1});
      }
    });
  };
  visit_f32_f64(x.dtype(), run);
  return out;
}

// Adds to the gradients of the filters that want them, and to grad_x if it is given. std::invalid_argument if shapes or
// types do not fit.
void convolve_backward(std::string_view layer, ConvolutionFilters& filters, const Windows& windows, const TensorView& x,
                       const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const auto& config = filters.config();
  check_type(layer, "the input", x.dtype(), filters);
  check_type(layer, "the gradient", grad_out.dtype(), filters);
  if (grad_out.shape() != windows.out_shape(config.out)) {
    refuse(layer, "the gradient is {}; it must be {}", to_string(grad_out.shape()),
           to_string(windows.out_shape(config.out)));
  }
  const LayerRows rows(layer, x, config.in), grad_rows(layer, grad_out, config.out);
  if (grad_x) check_type(layer, "grad_x", grad_x.dtype(), filters);
  const MutableTensorView output = grad_x ? output_rows(layer, "grad_x", grad_x, x.shape()) : grad_x;
  const auto run = [&]<class T>(T) {
    Backward<T> backward(filters, windows, threads);
    for (std::int64_t group = 0; group < config.groups; ++group) {
      backward.run(group, rows.view(), grad_rows.view(), output);
    }
  };
  visit_f32_f64(x.dtype(), run);
}

WindowAxis axis_of(const Conv1dConfig& config) {
  const std::int64_t reach = (config.kernel - 1) * config.dilation;
  return {.kernel = config.kernel,
          .stride = config.stride,
          .dilation = config.dilation,
          .before = config.causal ? reach : config.padding,
          .after = config.padding};
}

ConvolutionFilters::Config checked(const Conv1dConfig& config) {
  check_axis("conv1d", axis_of(config));
  if (config.causal && config.padding != 0) {
    refuse("conv1d", "causal with a padding of {}; it must be 0", config.padding);
  }
  return {.in = config.in, .out = config.out, .groups = config.groups, .kernel = {config.kernel}, .bias = config.bias};
}

}  // namespace

Conv1d::Conv1d(const Conv1dConfig& config, Weights& weights, const std::string& scope)
    : config_(config), filters_(checked(config), weights, scope) {}

std::int64_t Conv1d::out_length(std::int64_t length) const { return axis_of(config_).count(length); }

Tensor Conv1d::out_offsets(const TensorView& offsets) const {
  return window_offsets("conv1d", axis_of(config_), offsets);
}

Tensor Conv1d::forward(const Sequences& x, int threads) const {
  const Windows windows = Windows::of_sequences("conv1d", axis_of(config_), x, config_.in);
  return convolve("conv1d", filters_, windows, x.rows, threads);
}

void Conv1d::backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const Windows windows = Windows::of_sequences("conv1d", axis_of(config_), x, config_.in);
  convolve_backward("conv1d", filters_, windows, x.rows, grad_out, grad_x, threads);
}

namespace {

WindowAxis vertical(const Conv2dConfig& config) {
  return {.kernel = config.kernel.height,
          .stride = config.stride.height,
          .dilation = config.dilation.height,
          .before = config.padding.height,
          .after = config.padding.height};
}

WindowAxis horizontal(const Conv2dConfig& config) {
  return {.kernel = config.kernel.width,
          .stride = config.stride.width,
          .dilation = config.dilation.width,
          .before = config.padding.width,
          .after = config.padding.width};
}

ConvolutionFilters::Config checked(const Conv2dConfig& config) {
  check_axis("conv2d", vertical(config));
  check_axis("conv2d", horizontal(config));
  return {.in = config.in,
          .out = config.out,
          .groups = config.groups,
          .kernel = {config.kernel.height, config.kernel.width},
          .bias = config.bias};
}

Windows windows_of(const Conv2dConfig& config, const TensorView& x) {
  return Windows::of_pictures("conv2d", vertical(config), horizontal(config), x, config.in);
}

}  // namespace

Conv2d::Conv2d(const Conv2dConfig& config, Weights& weights, const std::string& scope)
    : config_(config), filters_(checked(config), weights, scope) {}

PictureSize Conv2d::out_size(const PictureSize& size) const {
  return {vertical(config_).count(size.height), horizontal(config_).count(size.width)};
}

Tensor Conv2d::forward(const TensorView& x, int threads) const {
  return convolve("conv2d", filters_, windows_of(config_, x), x, threads);
}

void Conv2d::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  convolve_backward("conv2d", filters_, windows_of(config_, x), x, grad_out, grad_x, threads);
}

}  // namespace qkv
