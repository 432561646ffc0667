// Conv1d and Conv2d against plain loops in double, every option crossed with every other; more rows and channels than a
// block has.
#include "qkv/layers/convolution.h"

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "layers/convolution/plain_convolution.h"

namespace qkv {
namespace {

using testing::normal;
using testing::PlainConvolution;
using testing::values;

// The bounds, as parts of the largest element.
double tolerance(Dtype dtype) { return dtype == Dtype::f32 ? 1e-5 : 1e-12; }

void expect_near(const TensorView& given, const std::vector<double>& wanted, const char* what) {
  const std::vector<double> own = values(given);
  ASSERT_EQ(own.size(), wanted.size()) << what;
  double largest = 1e-30;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_NEAR(own[i], wanted[i], tolerance(given.dtype()) * largest) << what << " " << i;
  }
}

template <class Layer, class Config>
Layer layer_of(const Config& config, const Tensor& weight, const Tensor& bias) {
  std::map<std::string, Tensor> tensors{{"weight", weight}};
  if (config.bias) tensors["bias"] = bias;
  Weights weights(tensors, "test", weight.dtype());
  Layer layer(config, weights);
  weights.expect_empty();
  testing::want_gradients(layer);
  return layer;
}

// Forward and backward of one layer and one input. `sizes` are those of the pictures of x.
template <class Layer, class Config, class Input>
void expect_plain(const Config& config, const PlainConvolution& plain, const Dims& kernel, const Input& x,
                  const TensorView& rows, const std::vector<PictureSize>& sizes, Random& random) {
  const Dtype dtype = rows.dtype();
  Dims shape{plain.out, plain.in / plain.groups};
  for (const std::int64_t extent : kernel) shape.push_back(extent);
  const Tensor weight = normal(random, shape, dtype), bias = normal(random, {plain.out}, dtype);
  Layer layer = layer_of<Layer>(config, weight, bias);
  const Tensor out = layer.forward(x);
  const Tensor grad_out = normal(random, out.shape(), dtype);
  const auto wanted = testing::convolve_plainly(plain, sizes, values(rows), values(weight),
                                                config.bias ? values(bias) : std::vector<double>{}, values(grad_out));
  expect_near(out, wanted.out, "out");
  Tensor grad_x = Tensor::zeros(rows.shape(), dtype);
  layer.backward(x, grad_out, grad_x);
  expect_near(grad_x, wanted.grad_x, "grad_x");
  layer.visit([&](const std::string& name, const Parameter& own) {
    EXPECT_TRUE(testing::same_bits(own.value, name == "bias" ? bias : weight));
    expect_near(own.gradient, name == "bias" ? wanted.grad_bias : wanted.grad_weight, name.c_str());
  });
}

std::int64_t one_of(Random& random, const std::vector<std::int64_t>& choices) {
  return choices[static_cast<std::size_t>(random.uniform() * static_cast<double>(choices.size()))];
}

void expect_plain_sequences(const Conv1dConfig& config, const std::vector<std::int64_t>& lengths, bool ragged,
                            Dtype dtype, Random& random) {
  const std::int64_t reach = (config.kernel - 1) * config.dilation;
  const PlainConvolution plain{.in = config.in,
                               .out = config.out,
                               .groups = config.groups,
                               .kernel = {1, config.kernel},
                               .stride = {1, config.stride},
                               .dilation = {1, config.dilation},
                               .before = {0, config.causal ? reach : config.padding},
                               .after = {0, config.padding}};
  std::vector<PictureSize> sizes;
  std::int64_t tokens = 0;
  for (const std::int64_t length : lengths) {
    sizes.push_back({1, length});
    tokens += length;
  }
  if (ragged) {
    const Tensor rows = normal(random, {tokens, config.in}, dtype), offsets = offsets_of(lengths);
    expect_plain<Conv1d>(config, plain, {config.kernel}, Sequences(rows, offsets), rows, sizes, random);
  } else {
    const Tensor rows = normal(random, {static_cast<std::int64_t>(lengths.size()), lengths[0], config.in}, dtype);
    expect_plain<Conv1d>(config, plain, {config.kernel}, Sequences(rows), rows, sizes, random);
  }
}

QKV_ON_EACH_TARGET(ConvolutionTargets);

TEST_P(ConvolutionTargets, SequencesWithEveryOption) {
  Random random(1);
  const std::vector<std::int64_t> lengths{0, 1, 2, 3, 5, 8, 13};
  for (const std::int64_t kernel : {1, 2, 3, 6}) {
    for (const std::int64_t stride : {1, 2, 5}) {
      for (const std::int64_t dilation : {1, 2, 16}) {
        for (const std::int64_t padding : {-1, 0, 1, 4}) {  // -1: causal
          for (const std::int64_t groups : {1, 2, 3}) {
            const Conv1dConfig config{.in = groups * one_of(random, {1, 2, 5}),
                                      .out = groups * one_of(random, {1, 3, 17}),
                                      .kernel = kernel,
                                      .stride = stride,
                                      .padding = std::max<std::int64_t>(padding, 0),
                                      .dilation = dilation,
                                      .groups = groups,
                                      .bias = random.uniform() < 0.5,
                                      .causal = padding < 0};
            SCOPED_TRACE(::testing::Message() << "kernel " << kernel << " stride " << stride << " dilation " << dilation
                                              << " padding " << padding << " groups " << groups);
            const Dtype dtype = random.uniform() < 0.5 ? Dtype::f32 : Dtype::f64;
            const std::int64_t length = one_of(random, lengths);
            expect_plain_sequences(config, {length, length}, false, dtype, random);
            expect_plain_sequences(config, {one_of(random, lengths), 1, one_of(random, lengths), 0, 4}, true, dtype,
                                   random);
          }
        }
      }
    }
  }
}

TEST_P(ConvolutionTargets, PicturesWithEveryOption) {
  Random random(2);
  const std::vector<std::int64_t> kernels{1, 2, 3}, strides{1, 2, 4}, dilations{1, 3}, paddings{0, 1, 3};
  const std::vector<std::int64_t> extents{0, 1, 2, 4, 7};
  for (const std::int64_t height : kernels) {
    for (const std::int64_t width : kernels) {
      for (const std::int64_t stride : strides) {
        for (const std::int64_t dilation : dilations) {
          for (const std::int64_t padding : paddings) {
            const std::int64_t groups = one_of(random, {1, 1, 2, 3});
            const Conv2dConfig config{.in = groups * one_of(random, {1, 2}),
                                      .out = groups * one_of(random, {1, 4}),
                                      .kernel = {height, width},
                                      .stride = {stride, one_of(random, strides)},
                                      .padding = {padding, one_of(random, paddings)},
                                      .dilation = {dilation, one_of(random, dilations)},
                                      .groups = groups,
                                      .bias = random.uniform() < 0.5};
            const PlainConvolution plain{.in = config.in,
                                         .out = config.out,
                                         .groups = groups,
                                         .kernel = config.kernel,
                                         .stride = config.stride,
                                         .dilation = config.dilation,
                                         .before = config.padding,
                                         .after = config.padding};
            SCOPED_TRACE(::testing::Message() << "kernel " << height << " x " << width << " stride " << stride
                                              << " dilation " << dilation << " padding " << padding);
            const PictureSize size{one_of(random, extents), one_of(random, extents)};
            const std::int64_t batch = one_of(random, {0, 1, 3});
            const Tensor x = normal(random, {batch, size.height, size.width, config.in},
                                    random.uniform() < 0.5 ? Dtype::f32 : Dtype::f64);
            expect_plain<Conv2d>(config, plain, {height, width}, x.view(), x,
                                 std::vector<PictureSize>(static_cast<std::size_t>(batch), size), random);
            EXPECT_EQ(Conv2d(layer_of<Conv2d>(config, Tensor::zeros({config.out, config.in / groups, height, width}),
                                              Tensor::zeros({config.out})))
                          .out_size(size),
                      plain.out_size(size));
          }
        }
      }
    }
  }
}

// More than a block of rows, of a sum and of channels; depthwise.
TEST_P(ConvolutionTargets, ManyRowsAndChannels) {
  Random random(3);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    expect_plain_sequences({.in = 70, .out = 50, .kernel = 3, .padding = 1}, {300, 1, 0, 129, 250}, true, dtype,
                           random);
    expect_plain_sequences({.in = 30, .out = 30, .kernel = 5, .groups = 30, .causal = true}, {600}, false, dtype,
                           random);
    expect_plain_sequences({.in = 130, .out = 2, .kernel = 2, .stride = 2, .dilation = 3}, {1200}, false, dtype,
                           random);
  }
}

TEST(Convolution, TakesAnyStrides) {
  Random random(4);
  const Tensor weight = normal(random, {4, 3, 2}), bias = normal(random, {4});
  const Conv1d conv = layer_of<Conv1d>(Conv1dConfig{.in = 3, .out = 4, .kernel = 2}, weight, bias);
  const Tensor channels_first = normal(random, {2, 3, 9});
  const TensorView x = channels_first.view().transpose(1, 2);
  EXPECT_TRUE(testing::same_bits(conv.forward(x), conv.forward(Tensor::copy(x))));
  const Tensor wide = normal(random, {9, 8});
  const TensorView rows = wide.view().slice(1, 2, 5);
  EXPECT_TRUE(testing::same_bits(conv.forward(rows), conv.forward(Tensor::copy(rows))));
}

}  // namespace
}  // namespace qkv
