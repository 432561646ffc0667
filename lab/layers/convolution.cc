// Conv1d: windows of sequences are gathered, multiplied by the filters, and the gradients of windows added to the rows
// that they see.
#include "lab/layers/convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/float_environment.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/sequence_begins.h"
#include "layers/basic/affine.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr std::string_view kConv1d = "conv1d";

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

void check_type(const char* name, Dtype dtype, Dtype weights) {
  refuse_unless(dtype == weights, kConv1d, "{} is {}, the weights are {}; they must agree", name, name_of(dtype),
                name_of(weights));
}

// The distance between the first and the last position of a window.
std::int64_t reach_of(const Conv1dConfig& config) { return (config.kernel - 1) * config.dilation; }

}  // namespace

// Which rows of the input each row of the output sees.
class Conv1d::Windows {
 public:
  Windows(const Conv1d& layer, const Sequences& x)
      : config_(layer.config_), in_(sequence_begins(kConv1d, x, layer.config_.in)), out_{0} {
    for (std::size_t i = 1; i < in_.size(); ++i) out_.push_back(out_.back() + layer.out_length(in_[i] - in_[i - 1]));
    if (x.ragged()) {
      out_shape_ = {rows(), config_.out};
    } else {
      out_shape_ = with_last(x.rows.shape(), config_.out);
      out_shape_[out_shape_.size() - 2] = layer.out_length(x.rows.size(-2));
    }
  }

  std::int64_t rows() const { return out_.back(); }
  const Dims& out_shape() const { return out_shape_; }

  // Where the output's rows begin <= row < end are cut into those of one sequence each: begin, ..., end.
  std::vector<std::int64_t> cuts(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> all{begin};
    for (auto next = std::ranges::upper_bound(out_, begin); next != out_.end() && *next < end; ++next) {
      if (*next > all.back()) all.push_back(*next);
    }
    all.push_back(end);
    return all;
  }

  // f(row, tap, row of the input, count) for the rows begin <= row < end of the output and the taps inside of their
  // sequences: count of them that are neighbours in the window and in the input; without dilation, all are.
  template <class F>
  void for_each_run(std::int64_t begin, std::int64_t end, const F& f) const {
    if (begin >= end) return;
    auto sequence = static_cast<std::size_t>(std::ranges::upper_bound(out_, begin) - out_.begin());
    for (std::int64_t row = begin; row < end; ++row) {
      while (row >= out_[sequence]) ++sequence;
      const std::int64_t first = in_[sequence - 1], length = in_[sequence] - first;
      const std::int64_t left = row - out_[sequence - 1] - (config_.causal ? reach_of(config_) : 0);
      if (config_.dilation == 1) {
        const std::int64_t from = std::max<std::int64_t>(0, -left), to = std::min(config_.kernel, length - left);
        if (from < to) f(row, from, first + left + from, to - from);
        continue;
      }
      for (std::int64_t tap = 0; tap < config_.kernel; ++tap) {
        const std::int64_t at = left + tap * config_.dilation;
        if (at >= 0 && at < length) f(row, tap, first + at, std::int64_t{1});
      }
    }
  }

  // to [end - begin, taps * channels] = the windows begin to end of rows `stride` apart.
  template <class T>
  void gather(std::int64_t begin, std::int64_t end, const T* x, std::int64_t stride, T* to) const {
    const std::int64_t in = config_.in, depth = config_.kernel * in;
    T* next = to;
    for_each_run(begin, end, [&](std::int64_t row, std::int64_t tap, std::int64_t from, std::int64_t count) {
      next = std::fill_n(next, to + (row - begin) * depth + tap * in - next, T{0});
      const T* source = x + from * stride;
      if (stride == in) {
        next = std::copy_n(source, count * in, next);
        return;
      }
      for (std::int64_t i = 0; i < count; ++i, source += stride) next = std::copy_n(source, in, next);
    });
    std::fill(next, to + (end - begin) * depth, T{0});
  }

  // The rows of x that the windows begin to end see += channels first to last of those windows' gradients, of row
  // `origin` on.
  template <class T>
  void scatter(std::int64_t origin, std::int64_t begin, std::int64_t end, const T* gradients, std::int64_t first,
               std::int64_t last, const MutableTensorView& x) const {
    const std::int64_t in = config_.in;
    for_each_run(begin, end, [&](std::int64_t row, std::int64_t tap, std::int64_t to, std::int64_t count) {
      const T* from = gradients + ((row - origin) * config_.kernel + tap) * in;
      T* sum = x.data<T>() + to * x.stride(0);
      for (std::int64_t i = 0; i < count; ++i, from += in, sum += x.stride(0)) {
        for (std::int64_t c = first; c < last; ++c) sum[c] += from[c];
      }
    });
  }

 private:
  const Conv1dConfig& config_;
  std::vector<std::int64_t> in_, out_;  // where each sequence begins, and the end of the last
  Dims out_shape_;
};

template <class T>
class Conv1d::Backward {
 public:
  Backward(Conv1d& layer, const Windows& windows, int threads) : layer_(layer), windows_(windows), threads_(threads) {
    block_rows_ = rows_of(kSumNumbers, layer.depth(), 512, 8192);  // of every batch, as sums depend on it
    block_ = Tensor::uninitialized({std::min(block_rows_, windows.rows()), layer.depth()}, dtype_of<T>);
  }

  // Block after block.
  void run(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x) {
    const bool wants_weight = layer_.weight_.has_gradient();
    const MutableTensorView bias = gradient_view(layer_.bias_);
    Tensor weight;
    MutableTensorView weight_place;
    if (wants_weight) {
      weight = Tensor::zeros({layer_.config_.out, layer_.depth()}, dtype_of<T>);
      weight_place = weight;
    }
    PackedMatrix to_windows;
    if (grad_x) to_windows = PackedMatrix(layer_.matrix(), threads_);
    for (std::int64_t begin = 0; begin < windows_.rows(); begin += block_rows_) {
      const std::int64_t end = std::min(begin + block_rows_, windows_.rows());
      const TensorView gradients = grad_out.slice(0, begin, end);
      const MutableTensorView seen = block_.view().slice(0, 0, end - begin);
      if (wants_weight) gather_block(begin, end, x);
      if (wants_weight || bias) {
        PackedRows inputs(seen);
        affine_backward(inputs, {}, gradients, {.weight = weight_place, .bias = bias}, threads_);
      }
      if (!grad_x) continue;
      matmul(gradients, to_windows, seen, {.threads = threads_});
      scatter_block(begin, end, grad_x);
    }
    if (wants_weight) layer_.add_weight_gradient(weight);
  }

 private:
  void gather_block(std::int64_t begin, std::int64_t end, const TensorView& x) {
    const std::int64_t rows = rows_of(kCopyNumbers, layer_.depth(), 1, block_rows_);
    parallel_for(divide_up(end - begin, rows), threads_, [&](std::int64_t task, int) {
      const std::int64_t first = begin + task * rows;
      windows_.gather(first, std::min(first + rows, end), x.data<T>(), x.stride(0),
                      block_.data<T>() + task * rows * layer_.depth());
    });
  }

  // Tasks share no element: rows of sequences apart, or channels apart. Each element is added to in the order of rows.
  void scatter_block(std::int64_t begin, std::int64_t end, const MutableTensorView& x) {
    const std::vector<std::int64_t> cuts = windows_.cuts(begin, end);
    const std::int64_t in = layer_.config_.in, slices = divide_up(in, kAddChannels);
    parallel_for((std::ssize(cuts) - 1) * slices, threads_, [&](std::int64_t task, int) {
      const auto sequence = static_cast<std::size_t>(task / slices);
      const std::int64_t channel = task % slices * kAddChannels;
      windows_.scatter(begin, cuts[sequence], cuts[sequence + 1], std::as_const(block_).data<T>(), channel,
                       std::min(channel + kAddChannels, in), x);
    });
  }

  Conv1d& layer_;
  const Windows& windows_;
  int threads_;
  std::int64_t block_rows_;
  Tensor block_;
};

Conv1d::Conv1d(const Conv1dConfig& config, Weights& weights, const std::string& scope)
    : config_(config), storage_(weights.storage()) {
  for (const auto& [name, size] :
       {std::pair("kernel", config.kernel), {"dilation", config.dilation}, {"in", config.in}, {"out", config.out}}) {
    check_size(kConv1d, name, size);
  }
  weight_.value = weights.take(scope + "weight", {config.out, config.in, config.kernel});
  if (config.bias) bias_.value = weights.take(scope + "bias", {config.out});
  pack();
}

std::int64_t Conv1d::out_length(std::int64_t length) const {
  return config_.causal ? length : std::max<std::int64_t>(0, length - reach_of(config_));
}

Tensor Conv1d::out_offsets(const TensorView& offsets) const {
  const std::vector<std::int64_t> begins = offset_begins(kConv1d, offsets);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(out_length(begins[i] - begins[i - 1]));
  return offsets_of(lengths);
}

Tensor Conv1d::matrix() const {
  Tensor matrix = Tensor::uninitialized({config_.out, depth()}, weight_.value.dtype());
  convert(weight_.value.view().transpose(1, 2), matrix.view().reshape({config_.out, config_.kernel, config_.in}));
  return matrix;
}

void Conv1d::pack() { windows_to_out_ = PackedMatrix(matrix().view().transpose(0, 1), 0, storage_); }

void Conv1d::add_weight_gradient(const Tensor& gradient) {
  visit_f32_f64(gradient.dtype(), [&]<class T>(T) {
    const T* next = gradient.data<T>();
    T* filter = weight_.gradient.data<T>();
    for (std::int64_t o = 0; o < config_.out; ++o, filter += depth()) {
      for (std::int64_t tap = 0; tap < config_.kernel; ++tap) {
        for (std::int64_t c = 0; c < config_.in; ++c) filter[c * config_.kernel + tap] += *next++;
      }
    }
  });
}

Tensor Conv1d::forward(const Sequences& x, int threads) const {
  const Windows windows(*this, x);
  check_type("the input", x.rows.dtype(), weight_.value.dtype());
  const LayerRows rows(kConv1d, x.rows, config_.in);
  Tensor out = Tensor::uninitialized(windows.out_shape(), x.rows.dtype());
  const MutableTensorView all = out.view().reshape({windows.rows(), config_.out});
  // Enough tasks for all threads, unless a task would be less than a few tiles.
  const std::int64_t share = divide_up(windows.rows(), threads == 0 ? qkv::threads() : threads);
  const std::int64_t of_task = std::min(rows_of(kProductNumbers, depth(), 64, 2048), std::max<std::int64_t>(share, 32));
  const auto run = [&]<class T>(T) {
    parallel_for(divide_up(windows.rows(), of_task), threads, [&](std::int64_t task, int) {
      const std::int64_t begin = task * of_task, end = std::min(begin + of_task, windows.rows());
      Tensor seen = Tensor::uninitialized({end - begin, depth()}, dtype_of<T>);
      windows.gather(begin, end, rows.view().data<T>(), rows.view().stride(0), seen.data<T>());
      matmul(seen, windows_to_out_, all.slice(0, begin, end),
             {.bias = config_.bias ? bias_.value.view() : TensorView(), .threads = 1});
    });
  };
  visit_f32_f64(out.dtype(), run);
  return out;
}

void Conv1d::backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const FloatEnvironment environment;
  const Windows windows(*this, x);
  const Dtype dtype = weight_.value.dtype();
  check_type("the input", x.rows.dtype(), dtype);
  check_type("the gradient", grad_out.dtype(), dtype);
  refuse_unless(grad_out.shape() == windows.out_shape(), kConv1d, "the gradient is {}; it must be {}",
                to_string(grad_out.shape()), to_string(windows.out_shape()));
  const LayerRows rows(kConv1d, x.rows, config_.in), grad_rows(kConv1d, grad_out, config_.out);
  if (grad_x) check_type("grad_x", grad_x.dtype(), dtype);
  const MutableTensorView output = grad_x ? output_rows(kConv1d, "grad_x", grad_x, x.rows.shape()) : grad_x;
  visit_f32_f64(dtype,
                [&]<class T>(T) { Backward<T>(*this, windows, threads).run(rows.view(), grad_rows.view(), output); });
}

void Conv1d::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(weight_, scope + "weight");
  if (config_.bias) walk(bias_, scope + "bias");
  if (walk.updater != nullptr) pack();
}

}  // namespace qkv
