// ConvolutionBlock and PictureNetwork, forward and backward.
#include "classifiers/picture_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/visit_dtype.h"
#include "layers/basic/affine.h"
#include "layers/basic/rows.h"
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

template <class View>
View as_rows(const View& x) {
  return x.reshape({x.element_count() / x.size(-1), x.size(-1)});
}

// [out, in, 3, 3] as [out, 9, in].
template <class View>
View taps_first(const View& filters) {
  return filters.reshape({filters.size(0), filters.size(1), 9}).transpose(1, 2);
}

// f(9 * pixel + tap, neighbour) for the pixels of pictures [batch, height, width, channels] and the nine around each;
// -1 for one outside of the picture.
template <class F>
void for_each_neighbour(const Tensor& x, const F& f) {
  const std::int64_t height = x.size(1), width = x.size(2);
  for (std::int64_t pixel = 0; pixel < x.size(0) * height * width; ++pixel) {
    const std::int64_t line = pixel / width % height, column = pixel % width;
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      const std::int64_t y = line + tap / 3 - 1, z = column + tap % 3 - 1;
      const bool inside = y >= 0 && y < height && z >= 0 && z < width;
      f(9 * pixel + tap, inside ? pixel + (y - line) * width + z - column : -1);
    }
  }
}

// [pixels, 9 * channels]: zeros outside of the pictures.
Tensor neighbours(const Tensor& x) {
  const std::int64_t channels = x.size(3);
  Tensor seen = Tensor::zeros({x.element_count() / channels, 9 * channels}, x.dtype());
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    T* to = seen.data<T>();
    for_each_neighbour(x, [&](std::int64_t at, std::int64_t neighbour) {
      if (neighbour >= 0) std::copy_n(x.data<T>() + neighbour * channels, channels, to + at * channels);
    });
  });
  return seen;
}

// of(i) for the elements i of rows [rows, dim], summed over the rows: blocks of rows by themselves, then their sums.
template <class Of>
Tensor sum_rows(std::int64_t rows, std::int64_t dim, const Of& of) {
  constexpr std::int64_t kBlock = 512;
  Tensor sums = Tensor::zeros({dim}, Dtype::f64);
  for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
    Tensor block = Tensor::zeros({dim}, Dtype::f64);
    double* own = block.data<double>();
    for (std::int64_t i = begin * dim; i < std::min(begin + kBlock, rows) * dim; ++i) own[i % dim] += of(i);
    for (std::int64_t c = 0; c < dim; ++c) sums.data<double>()[c] += own[c];
  }
  return sums;
}

template <class F>
Tensor mapped(Tensor numbers, const F& f) {
  double* number = numbers.data<double>();
  for (std::int64_t c = 0; c < numbers.element_count(); ++c) number[c] = f(number[c]);
  return numbers;
}

Tensor divided(const Tensor& sums, std::int64_t count) {
  return mapped(sums, [&](double sum) { return sum / static_cast<double>(count); });
}

Tensor inverse_deviation(const Tensor& variance) {
  return mapped(variance, [](double own) { return 1 / std::sqrt(own + 1e-5); });
}

// The running value moves towards that of a batch.
void move(Tensor& running, const Tensor& own) {
  visit_f32_f64(running.dtype(), [&]<class T>(T) {
    T* to = running.data<T>();
    for (std::int64_t c = 0; c < own.element_count(); ++c) {
      to[c] = static_cast<T>(0.9 * static_cast<double>(to[c]) + 0.1 * own.data<double>()[c]);
    }
  });
}

void add_sums(Parameter& parameter, const Tensor& sums) {
  if (!parameter.has_gradient()) return;
  visit_f32_f64(parameter.gradient.dtype(), [&]<class T>(T) {
    T* to = parameter.gradient.data<T>();
    for (std::int64_t c = 0; c < sums.element_count(); ++c) to[c] += static_cast<T>(sums.data<double>()[c]);
  });
}

// The elements of x that are the first of the largest in windows of size x size pixels, channel by channel. Windows do
// not overlap, and what is left at the edges is in none.
std::vector<std::int64_t> places_of_largest(const Tensor& x, std::int64_t size) {
  const std::int64_t height = x.size(1), width = x.size(2), dim = x.size(3);
  const std::int64_t lines = height / size, columns = width / size;
  std::vector<std::int64_t> places(static_cast<std::size_t>(x.size(0) * lines * columns * dim), -1);
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      const std::int64_t pixel = i / dim, line = pixel / width % height / size, column = pixel % width / size;
      if (line == lines || column == columns) continue;
      const std::int64_t window = (pixel / width / height * lines + line) * columns + column;
      std::int64_t& place = places[static_cast<std::size_t>(window * dim + i % dim)];
      if (place < 0 || x.data<T>()[i] > x.data<T>()[place]) place = i;
    }
  });
  return places;
}

Tensor max_pool(const Tensor& x, std::int64_t size) {
  Tensor out = Tensor::uninitialized({x.size(0), x.size(1) / size, x.size(2) / size, x.size(3)}, x.dtype());
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    T* to = out.data<T>();
    for (const std::int64_t place : places_of_largest(x, size)) *to++ = x.data<T>()[place];
  });
  return out;
}

Tensor max_pool_backward(const Tensor& x, std::int64_t size, const Tensor& grad_out) {
  Tensor grad_x = zeros_like(x);
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    const T* from = grad_out.data<T>();
    for (const std::int64_t place : places_of_largest(x, size)) grad_x.data<T>()[place] = *from++;
  });
  return grad_x;
}

// A row for each picture.
Dims rows_shape(const Tensor& x) {
  return {x.size(0), element_count(Dims(std::span(x.shape().begin() + 1, x.shape().end())))};
}

}  // namespace

ConvolutionBlock::ConvolutionBlock(const ConvolutionBlockConfig& config, Weights& weights, const std::string& scope)
    : config_(config) {
  filters_.value = weights.take(scope + "convolution.weight", {config.out, config.in, 3, 3});
  weight_.value = weights.take(scope + "norm.weight", {config.out});
  bias_.value = weights.take(scope + "norm.bias", {config.out});
  running_mean_.value = weights.take(scope + "norm.running_mean", {config.out});
  running_var_.value = weights.take(scope + "norm.running_var", {config.out});
}

PictureSize ConvolutionBlock::out_size(const PictureSize& size) const {
  return {size.height / config_.pool, size.width / config_.pool};
}

Tensor ConvolutionBlock::filters() const {
  Tensor matrix = Tensor::uninitialized({config_.out, 9 * config_.in}, filters_.value.dtype());
  convert(taps_first(filters_.value.view()), matrix.view().reshape({config_.out, 9, config_.in}));
  return matrix;
}

Tensor ConvolutionBlock::convolve(const Tensor& x) const {
  Tensor out = Tensor::uninitialized(with_last(x.shape(), config_.out), x.dtype());
  matmul(neighbours(x), PackedMatrix(filters().view().transpose(0, 1)), as_rows(out.view()));
  return out;
}

Tensor ConvolutionBlock::convolve_backward(const Tensor& x, const Tensor& grad_out) {
  const TensorView gradients = as_rows(grad_out.view());
  Tensor seen = neighbours(x), grad_filters = Tensor::zeros({config_.out, 9 * config_.in}, x.dtype());
  // Rows whose share of the gradient is one product: few enough for the third cache.
  const std::int64_t rows = seen.size(0), block = std::clamp<std::int64_t>((1 << 18) / seen.size(1), 512, 8192);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t end = std::min(begin + block, rows);
    PackedRows inputs(std::as_const(seen).view().slice(0, begin, end));
    affine_backward(inputs, {}, gradients.slice(0, begin, end), {.weight = grad_filters}, 0);
  }
  matmul(gradients, PackedMatrix(filters()), seen);
  Tensor grad_x = zeros_like(x);
  const std::int64_t in = config_.in;
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    const T* from = std::as_const(seen).data<T>();
    T* to = grad_x.data<T>();
    for_each_neighbour(x, [&](std::int64_t at, std::int64_t neighbour) {
      for (std::int64_t c = 0; neighbour >= 0 && c < in; ++c) to[neighbour * in + c] += from[at * in + c];
    });
  });
  if (filters_.has_gradient()) {
    const MutableTensorView to = taps_first(filters_.gradient.view());
    visit_f32_f64(x.dtype(), [&]<class T>(T) {
      const T* from = std::as_const(grad_filters).data<T>();
      for (std::int64_t o = 0; o < config_.out; ++o) {
        for (std::int64_t tap = 0; tap < 9; ++tap) {
          for (std::int64_t c = 0; c < config_.in; ++c) {
            to.data<T>()[o * to.stride(0) + tap * to.stride(1) + c * to.stride(2)] += *from++;
          }
        }
      }
    });
  }
  return grad_x;
}

Tensor ConvolutionBlock::normalize(const Tensor& x, const Tensor& mean, const Tensor& scale) const {
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const std::int64_t dim = config_.out;
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    const T *weight = weight_.value.data<T>(), *bias = bias_.value.data<T>(), *from = x.data<T>();
    T* to = out.data<T>();
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      const std::int64_t c = i % dim;
      const double normal = (static_cast<double>(from[i]) - mean.data<double>()[c]) * scale.data<double>()[c];
      to[i] = static_cast<T>(normal * static_cast<double>(weight[c]) + static_cast<double>(bias[c]));
    }
  });
  return out;
}

Tensor ConvolutionBlock::normalize_backward(const Saved& saved, const Tensor& grad_out) {
  const Tensor& x = saved.convolved;
  Tensor grad_x = Tensor::uninitialized(x.shape(), x.dtype());
  const std::int64_t dim = config_.out, count = x.element_count() / dim;
  const double *mean = saved.mean.data<double>(), *scale = saved.scale.data<double>();
  visit_f32_f64(x.dtype(), [&]<class T>(T) {
    const T *from = x.data<T>(), *grad = grad_out.data<T>(), *weight = weight_.value.data<T>();
    const auto normal = [&](std::int64_t i) { return (static_cast<double>(from[i]) - mean[i % dim]) * scale[i % dim]; };
    const Tensor sums = sum_rows(count, dim, [&](std::int64_t i) { return static_cast<double>(grad[i]); });
    const Tensor products =
        sum_rows(count, dim, [&](std::int64_t i) { return static_cast<double>(grad[i]) * normal(i); });
    add_sums(bias_, sums);
    add_sums(weight_, products);
    T* to = grad_x.data<T>();
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      const std::int64_t c = i % dim;
      const double own = static_cast<double>(grad[i]) - sums.data<double>()[c] / static_cast<double>(count);
      const double through = normal(i) * (products.data<double>()[c] / static_cast<double>(count));
      to[i] = static_cast<T>(static_cast<double>(weight[c]) * scale[c] * (own - through));
    }
  });
  return grad_x;
}

Tensor ConvolutionBlock::forward(const Tensor& x) const {
  const Tensor convolved = convolve(x), mean = convert(running_mean_.value, Dtype::f64);
  Tensor active = normalize(convolved, mean, inverse_deviation(convert(running_var_.value, Dtype::f64)));
  apply_relu(active);
  return max_pool(active, config_.pool);
}

Tensor ConvolutionBlock::forward(Tensor x, Saved& saved) {
  saved.x = std::move(x);
  saved.convolved = convolve(saved.x);
  const std::int64_t dim = config_.out, count = saved.convolved.element_count() / dim;
  const auto sum = [&](const auto& of) {
    return visit_f32_f64(saved.convolved.dtype(), [&]<class T>(T) {
      const T* from = std::as_const(saved.convolved).data<T>();
      return sum_rows(count, dim, [&](std::int64_t i) { return of(static_cast<double>(from[i]), i % dim); });
    });
  };
  saved.mean = divided(sum([](double value, std::int64_t) { return value; }), count);
  const double* mean = std::as_const(saved.mean).data<double>();
  const Tensor squares = sum([&](double value, std::int64_t c) { return (value - mean[c]) * (value - mean[c]); });
  saved.scale = inverse_deviation(divided(squares, count));
  move(running_mean_.value, saved.mean);
  move(running_var_.value, divided(squares, count - 1));
  saved.active = normalize(saved.convolved, saved.mean, saved.scale);
  apply_relu(saved.active);
  return max_pool(saved.active, config_.pool);
}

Tensor ConvolutionBlock::backward(const Saved& saved, const Tensor& grad_out) {
  Tensor grad_active = max_pool_backward(saved.active, config_.pool, grad_out);
  through_relu(saved.active, grad_active);
  return convolve_backward(saved.x, normalize_backward(saved, grad_active));
}

void ConvolutionBlock::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(filters_, scope + "convolution.weight");
  walk(weight_, scope + "norm.weight");
  walk(bias_, scope + "norm.bias");
  walk(running_mean_, scope + "norm.running_mean");
  walk(running_var_, scope + "norm.running_var");
  // Statistics, which no optimizer may move.
  if (walk.updater != nullptr) running_mean_.gradient = running_var_.gradient = {};
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
  LossSum sum =
      cross_entropy({.weight = weight_.value, .bias = bias_.value}, x.view().reshape(rows_shape(x)), batch.labels);
  sum.metric = count_right(logits(x), batch.labels);
  return sum;
}

LossSum PictureNetwork::backward(const LabelledPictures& batch, std::uint64_t) {
  std::vector<ConvolutionBlock::Saved> saved(blocks_.size());
  Tensor x = batch.pictures;
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].forward(std::move(x), saved[i]);
  Tensor grad = zeros_like(x);
  const LossSum sum = cross_entropy(
      {.weight = weight_.value, .bias = bias_.value}, x.view().reshape(rows_shape(x)), batch.labels,
      {.smoothing = config_.label_smoothing},
      {.hidden = grad.view().reshape(rows_shape(x)), .weight = gradient_view(weight_), .bias = gradient_view(bias_)});
  for (std::size_t i = blocks_.size(); i-- > 0;) grad = blocks_[i].backward(saved[i], grad);
  return sum;
}

void PictureNetwork::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) walk(blocks_[i], scope + block_scope(i));
  walk(weight_, scope + kWeight);
  walk(bias_, scope + kBias);
}

}  // namespace qkv::bench
