// Conv1d: windows of sequences are gathered, multiplied by the filters, and the gradients of windows added to the rows
// that they see.
#include "lab/layers/convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

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

// Rows of some channels.
template <class T>
struct Channels {
  T* first;
  std::int64_t stride, count;
};

template <class T>
Channels<const T> channels_of(const TensorView& rows, std::int64_t group, std::int64_t count) {
  return {rows.data<T>() + group * count, rows.stride(0), count};
}

// [out, in, kernel] as [out, kernel, in], of one group.
template <class View>
View taps_first(const View& weight, std::int64_t first, std::int64_t count) {
  return weight.slice(0, first, first + count).transpose(1, 2);
}

void check_type(const char* name, Dtype dtype, Dtype weights) {
  refuse_unless(dtype == weights, kConv1d, "{} is {}, the weights are {}; they must agree", name, name_of(dtype),
                name_of(weights));
}

// Zeros in front of a sequence.
std::int64_t zeros_before(const Conv1dConfig& config) {
  return config.causal ? (config.kernel - 1) * config.dilation : config.padding;
}

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
      const std::int64_t left = (row - out_[sequence - 1]) * config_.stride - zeros_before(config_);
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

  // to [end - begin, taps * channels] = the windows begin to end.
  template <class T>
  void gather(std::int64_t begin, std::int64_t end, const Channels<const T>& x, T* to) const {
    const std::int64_t depth = config_.kernel * x.count;
    T* next = to;
    for_each_run(begin, end, [&](std::int64_t row, std::int64_t tap, std::int64_t from, std::int64_t count) {
      next = std::fill_n(next, to + (row - begin) * depth + tap * x.count - next, T{0});
      const T* source = x.first + from * x.stride;
      if (x.stride == x.count) {
        next = std::copy_n(source, count * x.count, next);
        return;
      }
      for (std::int64_t i = 0; i < count; ++i, source += x.stride) {
        if (x.count == 1) {
          *next++ = *source;  // a call of memcpy costs more
        } else {
          next = std::copy_n(source, x.count, next);
        }
      }
    });
    std::fill(next, to + (end - begin) * depth, T{0});
  }

  // The rows that the windows begin to end see += channels first to last of those windows' gradients, of row `origin`
  // on.
  template <class T>
  void scatter(std::int64_t origin, std::int64_t begin, std::int64_t end, const T* gradients, std::int64_t first,
               std::int64_t last, const Channels<T>& x) const {
    for_each_run(begin, end, [&](std::int64_t row, std::int64_t tap, std::int64_t to, std::int64_t count) {
      const T* from = gradients + ((row - origin) * config_.kernel + tap) * x.count;
      T* sum = x.first + to * x.stride;
      for (std::int64_t i = 0; i < count; ++i, from += x.count, sum += x.stride) {
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

  // Of one group, block after block.
  void run(std::int64_t group, const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x) {
    const std::int64_t in = layer_.group_in();
    const bool wants_weight = layer_.weight_.has_gradient();
    const MutableTensorView bias =
        layer_.bias_.has_gradient() ? layer_.outputs_of(layer_.bias_.gradient.view(), group) : MutableTensorView();
    Tensor weight;
    MutableTensorView weight_place;
    if (wants_weight) {
      weight = Tensor::zeros({layer_.group_out(), layer_.depth()}, dtype_of<T>);
      weight_place = weight;
    }
    PackedMatrix to_windows;
    if (grad_x) to_windows = PackedMatrix(layer_.matrix(group), threads_);
    for (std::int64_t begin = 0; begin < windows_.rows(); begin += block_rows_) {
      const std::int64_t end = std::min(begin + block_rows_, windows_.rows());
      const TensorView gradients = layer_.outputs_of(grad_out.slice(0, begin, end), group);
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
    if (wants_weight) layer_.add_weight_gradient(group, weight);
  }

 private:
  void gather_block(std::int64_t begin, std::int64_t end, const Channels<const T>& x) {
    const std::int64_t rows = rows_of(kCopyNumbers, layer_.depth(), 1, block_rows_);
    parallel_for(divide_up(end - begin, rows), threads_, [&](std::int64_t task, int) {
      const std::int64_t first = begin + task * rows;
      windows_.gather(first, std::min(first + rows, end), x, block_.data<T>() + task * rows * layer_.depth());
    });
  }

  // Tasks share no element: rows of sequences apart, or channels apart. Each element is added to in the order of rows.
  void scatter_block(std::int64_t begin, std::int64_t end, const Channels<T>& x) {
    const std::vector<std::int64_t> cuts = windows_.cuts(begin, end);
    const std::int64_t slices = divide_up(x.count, kAddChannels);
    parallel_for((std::ssize(cuts) - 1) * slices, threads_, [&](std::int64_t task, int) {
      const auto sequence = static_cast<std::size_t>(task / slices);
      const std::int64_t channel = task % slices * kAddChannels;
      windows_.scatter(begin, cuts[sequence], cuts[sequence + 1], std::as_const(block_).data<T>(), channel,
                       std::min(channel + kAddChannels, x.count), x);
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
  for (const auto& [name, size] : {std::pair("kernel", config.kernel),
                                   {"stride", config.stride},
                                   {"dilation", config.dilation},
                                   {"in", config.in},
                                   {"out", config.out},
                                   {"groups", config.groups}}) {
    check_size(kConv1d, name, size);
  }
  refuse_unless(config.padding >= 0 && config.padding <= kMaxLayerSize, kConv1d, "padding is {}; it must be 0 to {}",
                config.padding, kMaxLayerSize);
  refuse_unless(!config.causal || config.padding == 0, kConv1d, "causal with a padding of {}; it must be 0",
                config.padding);
  refuse_unless(config.in % config.groups == 0 && config.out % config.groups == 0, kConv1d,
                "{} groups must divide in, {}, and out, {}", config.groups, config.in, config.out);
  weight_.value = weights.take(scope + "weight", {config.out, group_in(), config.kernel});
  if (config.bias) bias_.value = weights.take(scope + "bias", {config.out});
  pack();
}

std::int64_t Conv1d::out_length(std::int64_t length) const {
  const std::int64_t reach = (config_.kernel - 1) * config_.dilation;
  const std::int64_t room = length + zeros_before(config_) + config_.padding - reach - 1;
  return length == 0 || room < 0 ? 0 : room / config_.stride + 1;
}

Tensor Conv1d::out_offsets(const TensorView& offsets) const {
  const std::vector<std::int64_t> begins = offset_begins(kConv1d, offsets);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(out_length(begins[i] - begins[i - 1]));
  return offsets_of(lengths);
}

template <class View>
View Conv1d::outputs_of(const View& all, std::int64_t group) const {
  return all.slice(all.rank() - 1, group * group_out(), (group + 1) * group_out());
}

Tensor Conv1d::matrix(std::int64_t group) const {
  Tensor matrix = Tensor::uninitialized({group_out(), depth()}, weight_.value.dtype());
  convert(taps_first(weight_.value.view(), group * group_out(), group_out()),
          matrix.view().reshape({group_out(), config_.kernel, group_in()}));
  return matrix;
}

void Conv1d::pack() {
  parts_.clear();
  for (std::int64_t group = 0; group < config_.groups; ++group) {
    const Tensor own = matrix(group);
    parts_.emplace_back(own.view().transpose(0, 1), 0, storage_);
  }
}

void Conv1d::add_weight_gradient(std::int64_t group, const Tensor& gradient) {
  const MutableTensorView to = taps_first(weight_.gradient.view(), group * group_out(), group_out());
  const auto add = [&]<class T>(T) {
    const T* next = gradient.data<T>();
    for (std::int64_t o = 0; o < group_out(); ++o) {
      for (std::int64_t tap = 0; tap < config_.kernel; ++tap) {
        T* filter = to.data<T>() + o * to.stride(0) + tap * to.stride(1);
        for (std::int64_t c = 0; c < group_in(); ++c) filter[c * to.stride(2)] += *next++;
      }
    }
  };
  visit_f32_f64(gradient.dtype(), add);
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
      for (std::int64_t group = 0; group < config_.groups; ++group) {
        windows.gather(begin, end, channels_of<T>(rows.view(), group, group_in()), seen.data<T>());
        matmul(seen, parts_[static_cast<std::size_t>(group)], outputs_of(all.slice(0, begin, end), group),
               {.bias = config_.bias ? outputs_of(bias_.value.view(), group) : TensorView(), .threads = 1});
      }
    });
  };
  visit_f32_f64(out.dtype(), run);
  return out;
}

void Conv1d::backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const Windows windows(*this, x);
  const Dtype dtype = weight_.value.dtype();
  check_type("the input", x.rows.dtype(), dtype);
  check_type("the gradient", grad_out.dtype(), dtype);
  refuse_unless(grad_out.shape() == windows.out_shape(), kConv1d, "the gradient is {}; it must be {}",
                to_string(grad_out.shape()), to_string(windows.out_shape()));
  const LayerRows rows(kConv1d, x.rows, config_.in), grad_rows(kConv1d, grad_out, config_.out);
  if (grad_x) check_type("grad_x", grad_x.dtype(), dtype);
  const MutableTensorView output = grad_x ? output_rows(kConv1d, "grad_x", grad_x, x.rows.shape()) : grad_x;
  const auto run = [&]<class T>(T) {
    Backward<T> backward(*this, windows, threads);
    for (std::int64_t group = 0; group < config_.groups; ++group) {
      backward.run(group, rows.view(), grad_rows.view(), output);
    }
  };
  visit_f32_f64(dtype, run);
}

void Conv1d::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
  if (config_.bias) visitor(scope + "bias", bias_);
}

void Conv1d::update(const ParameterUpdater& updater, const std::string& scope) {
  updater(scope + "weight", weight_);
  if (config_.bias) updater(scope + "bias", bias_);
  pack();
}

}  // namespace qkv
