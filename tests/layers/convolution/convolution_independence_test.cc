// What a result of a convolution or pooling depends on: not on threads, not on the batch beside it, not on what its
// windows do not see; a causal one not on what follows. Gradients by differences; refusals.
#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/error.h"
#include "qkv/layers/convolution.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/pooling.h"

namespace qkv {
namespace {

using testing::normal;
using testing::same_bits;

template <class Layer, class Config>
Layer drawn(const Config& config, Dtype dtype = Dtype::f32) {
  Weights weights = initial_weights(1, dtype);
  Layer layer(config, weights);
  testing::want_gradients(layer);
  return layer;
}

constexpr Conv1dConfig kSame{.in = 70, .out = 66, .kernel = 3, .padding = 1};
constexpr Conv1dConfig kCausal{.in = 12, .out = 9, .kernel = 3, .dilation = 4, .groups = 3, .causal = true};
constexpr Conv1dConfig kStrided{.in = 8, .out = 10, .kernel = 4, .stride = 3, .padding = 2, .dilation = 2, .groups = 2};

// Output, gradient of the input, and those of the parameters.
std::vector<Tensor> passes(const Conv1dConfig& config, const Sequences& x, const Tensor& grad_out, int threads) {
  auto conv = drawn<Conv1d>(config);
  std::vector<Tensor> results{conv.forward(x, threads), Tensor::zeros(x.rows.shape())};
  conv.backward(x, grad_out, results[1], threads);
  conv.visit([&](const std::string&, const Parameter& own) { results.push_back(own.gradient); });
  return results;
}

QKV_ON_EACH_TARGET(ConvolutionIndependence);

TEST_P(ConvolutionIndependence, AnyThreadsGiveTheSameBits) {
  Random random(1);
  for (const Conv1dConfig& config : {kSame, kCausal, kStrided}) {
    const Tensor x = normal(random, {3, 401, config.in});
    const auto conv = drawn<Conv1d>(config);
    const Tensor grad_out = normal(random, {3, conv.out_length(401), config.out});
    const std::vector<Tensor> one = passes(config, x, grad_out, 1);
    for (const int threads : {2, 5}) {
      const std::vector<Tensor> many = passes(config, x, grad_out, threads);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(many[i], one[i])) << threads << ", " << i;
    }
  }
  auto conv = drawn<Conv2d>(Conv2dConfig{.in = 5, .out = 33, .kernel = {3, 3}, .padding = {1, 1}});
  const Pool2d pool({.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
  const Tensor x = normal(random, {7, 14, 13, 5}), grad_out = normal(random, {7, 14, 13, 33});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 5}) {
    std::vector<Tensor> results{conv.forward(x, threads), Tensor::zeros(x.shape()), pool.forward(x, threads),
                                Tensor::zeros(x.shape())};
    conv.backward(x, grad_out, results[1], threads);
    pool.backward(x, results[2], results[3], threads);
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(results[i], first[i])) << threads << ", " << i;
  }
}

// Each sequence as if it were alone, padded as ragged; and a picture as if it were alone.
TEST_P(ConvolutionIndependence, BatchCompanyGivesTheSameBits) {
  Random random(2);
  const std::vector<std::int64_t> lengths{5, 1, 0, 150, 9, 400};
  for (const Conv1dConfig& config : {kSame, kCausal, kStrided}) {
    auto conv = drawn<Conv1d>(config);
    const Tensor rows = normal(random, {565, config.in}), offsets = offsets_of(lengths);
    const Tensor out = conv.forward({rows, offsets}, 2), out_offsets = conv.out_offsets(offsets);
    const Tensor grad_out = normal(random, out.shape());
    Tensor grad_x = Tensor::zeros(rows.shape());
    conv.backward({rows, offsets}, grad_out, grad_x, 2);
    std::int64_t begin = 0, out_begin = 0;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const std::int64_t end = begin + lengths[b], out_end = out_begin + conv.out_length(lengths[b]);
      EXPECT_EQ(out_offsets.data<std::int32_t>()[b + 1], out_end);
      const TensorView x = rows.view().slice(0, begin, end), grad = grad_out.view().slice(0, out_begin, out_end);
      EXPECT_TRUE(same_bits(out.view().slice(0, out_begin, out_end), conv.forward(x)));
      Tensor alone = Tensor::zeros(x.shape());
      conv.backward(x, grad, alone);
      EXPECT_TRUE(same_bits(std::as_const(grad_x).view().slice(0, begin, end), alone));
      begin = end;
      out_begin = out_end;
    }
  }
  const auto conv = drawn<Conv2d>(Conv2dConfig{.in = 3, .out = 20, .kernel = {3, 2}, .stride = {2, 1}});
  const Tensor x = normal(random, {5, 17, 19, 3}), out = conv.forward(x, 2);
  for (std::int64_t b = 0; b < 5; ++b) {
    EXPECT_TRUE(same_bits(out.view().slice(0, b, b + 1), conv.forward(x.view().slice(0, b, b + 1))));
  }
}

bool has_nan(const TensorView& view) {
  const std::vector<double> all = testing::values(view);
  return std::any_of(all.begin(), all.end(), [](double value) { return std::isnan(value); });
}

TEST_P(ConvolutionIndependence, NanStaysInItsSequenceAndWindows) {
  Random random(3);
  for (const Conv1dConfig& config : {kSame, kCausal, kStrided}) {
    auto conv = drawn<Conv1d>(config);
    const Tensor offsets = offsets_of(std::vector<std::int64_t>{6, 20, 7});
    Tensor rows = normal(random, {33, config.in});
    testing::put(rows, {6 + 9, 0}, testing::kNan);
    const Tensor out = conv.forward({rows, offsets}), out_offsets = conv.out_offsets(offsets);
    const std::int32_t* cuts = out_offsets.data<std::int32_t>();
    const std::int64_t before = config.causal ? (config.kernel - 1) * config.dilation : config.padding;
    for (std::int64_t row = 0; row < out.size(0); ++row) {
      bool sees = false;
      for (std::int64_t tap = 0; row >= cuts[1] && row < cuts[2] && tap < config.kernel; ++tap) {
        sees = sees || (row - cuts[1]) * config.stride + tap * config.dilation - before == 9;
      }
      EXPECT_EQ(has_nan(out.view().slice(0, row, row + 1)), sees) << row;
    }
    // A NaN of a gradient reaches the rows that its window sees.
    Tensor grad_out = normal(random, out.shape()), grad_x = Tensor::zeros(rows.shape());
    testing::put(grad_out, {cuts[1], 0}, testing::kNan);
    conv.backward({rows, offsets}, grad_out, grad_x);
    EXPECT_FALSE(has_nan(std::as_const(grad_x).view().slice(0, 0, 6)));
    EXPECT_TRUE(has_nan(std::as_const(grad_x).view().slice(0, 6, 26)));
    EXPECT_FALSE(has_nan(std::as_const(grad_x).view().slice(0, 26, 33)));
  }
  const auto conv = drawn<Conv2d>(Conv2dConfig{.in = 2, .out = 3, .kernel = {3, 3}, .padding = {1, 1}});
  const Pool2d pool({.kernel = {2, 2}});
  Tensor x = normal(random, {3, 4, 6, 2});
  testing::put(x, {1, 3, 5, 1}, testing::kNan);
  for (const Tensor& out : {conv.forward(x), pool.forward(x)}) {
    for (std::int64_t b = 0; b < 3; ++b) EXPECT_EQ(has_nan(out.view().slice(0, b, b + 1)), b == 1);
  }
}

// Measured: changing x[s] changes no output before s.
TEST_P(ConvolutionIndependence, CausalSeesNothingThatFollows) {
  Random random(4);
  const auto conv = drawn<Conv1d>(kCausal);
  const Tensor x = normal(random, {1, 30, kCausal.in}), out = conv.forward(x);
  EXPECT_EQ(conv.out_length(30), 30);
  for (std::int64_t changed = 0; changed < 30; ++changed) {
    Tensor other = x;
    for (std::int64_t c = 0; c < kCausal.in; ++c) testing::put(other, {0, changed, c}, 3);
    const Tensor moved = conv.forward(other);
    for (std::int64_t t = 0; t < 30; ++t) {
      const std::int64_t back = t - changed;
      const bool sees = back == 0 || back == 4 || back == 8;
      EXPECT_EQ(same_bits(moved.view().slice(1, t, t + 1), out.view().slice(1, t, t + 1)), !sees)
          << t << " sees " << changed;
    }
  }
}

template <class Layer>
void expect_jacobian(Layer& layer, Tensor x) {
  Random random(5);
  const Tensor grad_out = normal(random, layer.forward(x).shape(), Dtype::f64);
  const auto loss = [&] { return testing::dot(layer.forward(x), grad_out); };
  // What is there is added to.
  const Tensor there = normal(random, x.shape(), Dtype::f64);
  Tensor grad_x = there;
  layer.backward(x, grad_out, grad_x);
  for (std::int64_t i = 0; i < x.element_count(); ++i) grad_x.data<double>()[i] -= there.data<double>()[i];
  testing::expect_gradient(loss, x, grad_x);
  testing::expect_parameter_gradients(layer, loss);
}

TEST(Convolution, Gradients) {
  Random random(6);
  for (const Conv1dConfig& config :
       {Conv1dConfig{.in = 3, .out = 4, .kernel = 3, .padding = 2},
        Conv1dConfig{.in = 4, .out = 6, .kernel = 3, .dilation = 2, .groups = 2, .causal = true},
        Conv1dConfig{.in = 2, .out = 3, .kernel = 4, .stride = 3, .padding = 1, .bias = false}}) {
    auto conv = drawn<Conv1d>(config, Dtype::f64);
    expect_jacobian(conv, normal(random, {2, 7, config.in}, Dtype::f64));
  }
  auto conv = drawn<Conv2d>(
      Conv2dConfig{
          .in = 2, .out = 4, .kernel = {3, 2}, .stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2},
      Dtype::f64);
  expect_jacobian(conv, normal(random, {2, 4, 5, 2}, Dtype::f64));
}

// Gradients that nobody wants are left out, and what is wanted stays the same.
TEST(Convolution, WantsSomeGradientsAlone) {
  Random random(7);
  const Tensor x = normal(random, {2, 30, kSame.in}), grad_out = normal(random, {2, 30, kSame.out});
  const std::vector<Tensor> all = passes(kSame, x, grad_out, 1);
  for (const std::string left : {"weight", "bias"}) {
    auto conv = drawn<Conv1d>(kSame);
    conv.update([&](const std::string& name, Parameter& own) {
      if (name != left) own.gradient = {};
    });
    conv.backward(x, grad_out);
    conv.visit([&](const std::string& name, const Parameter& own) {
      EXPECT_EQ(own.has_gradient(), name == left);
      if (name != left) return;
      EXPECT_TRUE(same_bits(own.gradient, all[name == "weight" ? 2 : 3]));
    });
  }
}

TEST(Convolution, UpdatesLayWeightsOutAnew) {
  Random random(8);
  auto conv = drawn<Conv1d>(kSame);
  const Tensor x = normal(random, {9, kSame.in}), before = conv.forward(x);
  conv.update([](const std::string&, Parameter& own) {
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) own.value.data<float>()[i] *= 2;
  });
  const Tensor after = conv.forward(x);
  for (std::int64_t i = 0; i < after.element_count(); ++i) {
    EXPECT_EQ(after.data<float>()[i], 2 * before.data<float>()[i]);
  }
}

// As torch: uniform within 1 / sqrt(inputs of an output).
TEST(Convolution, InitialWeights) {
  const auto conv = drawn<Conv1d>(Conv1dConfig{.in = 64, .out = 64, .kernel = 3, .groups = 2});
  conv.visit([](const std::string& name, const Parameter& own) {
    const double bound = 1 / std::sqrt(32.0 * 3), largest = testing::largest(own.value);
    EXPECT_LE(largest, bound) << name;
    EXPECT_GE(largest, 0.9 * bound) << name;
  });
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto of = [](const Conv1dConfig& config) { return refusal([&] { drawn<Conv1d>(config); }); };
  EXPECT_EQ(of({.in = 0, .out = 2}), "conv1d: in is 0; it must be 1 to 1048576");
  EXPECT_EQ(of({.in = 2, .out = 2, .kernel = 0}), "conv1d: kernel is 0; it must be 1 to 1048576");
  EXPECT_EQ(of({.in = 2, .out = 2, .stride = 0}), "conv1d: stride is 0; it must be 1 to 1048576");
  EXPECT_EQ(of({.in = 2, .out = 2, .dilation = -1}), "conv1d: dilation is -1; it must be 1 to 1048576");
  EXPECT_EQ(of({.in = 2, .out = 2, .padding = -1}), "conv1d: padding is -1; it must be 0 to 1048576");
  EXPECT_EQ(of({.in = 4, .out = 6, .groups = 4}), "conv1d: 4 groups must divide in, 4, and out, 6");
  EXPECT_EQ(of({.in = 2, .out = 2, .padding = 1, .causal = true}), "conv1d: causal with a padding of 1; it must be 0");
  Weights weights({{"weight", Tensor::zeros({2, 3, 4})}, {"bias", Tensor::zeros({2})}}, "file");
  EXPECT_THROW(Conv1d({.in = 3, .out = 2, .kernel = 5}, weights), FormatError);
  EXPECT_THROW(Conv2d({.in = 3, .out = 2, .kernel = {2, 2}}, weights), FormatError);

  auto conv = drawn<Conv1d>(Conv1dConfig{.in = 3, .out = 2, .kernel = 2});
  const auto forward = [&](const Sequences& x) { return refusal([&] { conv.forward(x); }); };
  EXPECT_EQ(forward(Tensor::zeros({2, 5, 4})),
            "conv1d: the input is [2, 5, 4]; it must be [batch, length, 3], or rows [tokens, 3] with offsets");
  EXPECT_EQ(forward(Tensor::zeros({5, 3}, Dtype::f64)),
            "conv1d: the input is f64, the weights are f32; they must agree");
  const Tensor rows = Tensor::zeros({5, 3});
  EXPECT_EQ(forward({rows, Tensor::zeros({2})}), "conv1d: offsets are f32 [2]; they must be i32 [batch + 1]");
  EXPECT_EQ(forward({rows, Tensor::of<std::int32_t>({3}, {0, 3, 2})}),
            "conv1d: offsets must begin with 0 and never fall; at 2 is 2");
  EXPECT_EQ(forward({rows, Tensor::of<std::int32_t>({2}, {1, 5})}),
            "conv1d: offsets must begin with 0 and never fall; at 0 is 1");
  EXPECT_EQ(forward({rows, Tensor::of<std::int32_t>({2}, {0, 6})}), "conv1d: offsets end with 6; the input has 5 rows");
  const Tensor x = Tensor::zeros({2, 5, 3});
  EXPECT_EQ(refusal([&] { conv.backward(x, Tensor::zeros({2, 5, 2})); }),
            "conv1d: the gradient is [2, 5, 2]; it must be [2, 4, 2]");
  Tensor wrong = Tensor::zeros({2, 4, 3}), wide = Tensor::zeros({2, 5, 3}, Dtype::f64);
  EXPECT_EQ(refusal([&] { conv.backward(x, Tensor::zeros({2, 4, 2}), wrong); }),
            "conv1d: grad_x is [2, 4, 3]; it must be [2, 5, 3]");
  EXPECT_EQ(refusal([&] { conv.backward(x, Tensor::zeros({2, 4, 2}), wide); }),
            "conv1d: grad_x is f64, the weights are f32; they must agree");

  const auto picture = drawn<Conv2d>(Conv2dConfig{.in = 3, .out = 2, .kernel = {2, 2}});
  EXPECT_EQ(refusal([&] { picture.forward(x); }),
            "conv2d: the input is [2, 5, 3]; it must be [batch, height, width, 3]");
}

}  // namespace
}  // namespace qkv
