// LayerNorm against plain loops in double; every size around the vectors; residual, strides, threads, refusals.
#include "qkv/layers/layer_norm.h"

#include "attention/attention_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

using testing::normal;
using testing::same_bits;

// The formula, written out.
Tensor plain_norm(const LayerNormConfig& config, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::vector<double> in = testing::values(x), w = testing::values(weight), b = testing::values(bias);
  std::vector<double> out;
  const std::size_t size = w.size();
  const auto count = static_cast<double>(size);
  for (std::size_t row = 0; row < in.size(); row += size) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < size; ++i) mean += in[row + i] / count;
    if (config.normalization == Normalization::rms) mean = 0;
    for (std::size_t i = 0; i < size; ++i) variance += std::pow(in[row + i] - mean, 2) / count;
    const double deviation = std::sqrt(variance + config.epsilon);
    for (std::size_t i = 0; i < size; ++i) {
      out.push_back((in[row + i] - mean) / deviation * w[i] + (config.bias ? b[i] : 0));
    }
  }
  return Tensor::of(x.shape(), out);
}

LayerNorm norm_of(const LayerNormConfig& config, const Tensor& weight, const Tensor& bias) {
  Weights weights({{"weight", weight}, {"bias", bias}}, "test", weight.dtype());
  return LayerNorm(config, weights);
}

LayerNorm random_norm(const LayerNormConfig& config, Dtype dtype = Dtype::f32) {
  Random random(4);
  const Tensor weight = normal(random, {config.dim}, dtype);
  return norm_of(config, weight, normal(random, {config.dim}, dtype));
}

QKV_ON_EACH_TARGET(LayerNormTargets);

TEST_P(LayerNormTargets, EverySize) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const double unit = dtype == Dtype::f32 ? 6e-8 : 1.1e-16;
    for (const std::int64_t size : {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 384}) {
      const Tensor weight = normal(random, {size}, dtype), bias = normal(random, {size}, dtype);
      const Tensor x = normal(random, {5, size}, dtype, 3);
      for (const LayerNormConfig& config :
           {LayerNormConfig{.dim = size, .epsilon = 1e-5},
            LayerNormConfig{.dim = size, .epsilon = 0.5, .bias = false, .normalization = Normalization::rms}}) {
        const Tensor expected = plain_norm(config, x, weight, bias);
        // A sum of `size` numbers has rounding errors of at most about that many half units, in practice their root.
        const double roundings = 8 + 2 * std::sqrt(static_cast<double>(size));
        EXPECT_LE(testing::difference(norm_of(config, weight, bias).forward(x), expected),
                  roundings * unit * std::max(1.0, testing::largest(expected)));
      }
    }
  }
}

// A large mean with a small spread: the squares are summed around the mean, so nothing cancels.
TEST_P(LayerNormTargets, LargeMean) {
  Random random(2);
  Tensor x = normal(random, {4, 384});
  for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<float>()[i] += 1000;
  const Tensor weight = testing::filled({384}, 1), bias = testing::filled({384}, 0);
  const LayerNormConfig config{.dim = 384, .epsilon = 1e-12};
  // Sums near 384,000 round by up to 0.016 at each of 384 steps; their root over 384 is what the mean may be off by.
  EXPECT_LE(testing::difference(norm_of(config, weight, bias).forward(x), plain_norm(config, x, weight, bias)), 1e-3);
}

TEST_P(LayerNormTargets, Gradients) {
  Random random(6);
  for (const Normalization normalization : {Normalization::layer, Normalization::rms}) {
    for (const std::int64_t dim : {1, 5, 19}) {
      LayerNorm norm = random_norm({.dim = dim, .epsilon = 1e-3, .normalization = normalization}, Dtype::f64);
      testing::want_gradients(norm);
      Tensor x = normal(random, {4, dim}, Dtype::f64), grad_x = Tensor::zeros({4, dim}, Dtype::f64);
      const Tensor grad_out = normal(random, {4, dim}, Dtype::f64);
      const auto loss = [&] { return testing::dot(norm.forward(x), grad_out); };
      norm.backward(x, grad_out, grad_x);
      testing::expect_gradient(loss, x, grad_x);
      testing::expect_parameter_gradients(norm, loss);
    }
  }
}

TEST(LayerNorm, ResidualStridesAndThreads) {
  Random random(3);
  const LayerNorm norm = random_norm({.dim = 48});
  const Tensor wide = normal(random, {3000, 100}), added = normal(random, {3000, 48});
  const TensorView x = wide.view().slice(1, 5, 53);
  Tensor sum = Tensor::copy(x), kept = added;
  for (std::int64_t i = 0; i < sum.element_count(); ++i) sum.data<float>()[i] += added.data<float>()[i];
  const Tensor expected = norm.forward(sum);
  for (const int threads : {1, 3}) EXPECT_TRUE(same_bits(norm.forward(x, added, threads), expected)) << threads;
  EXPECT_TRUE(same_bits(norm.forward(sum.view().slice(0, 7, 8)), expected.view().slice(0, 7, 8)));
  // The sum is kept for backward.
  EXPECT_TRUE(same_bits(norm.add_forward(x, kept, 3), expected));
  EXPECT_TRUE(same_bits(kept, sum));
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  LayerNorm norm = random_norm({.dim = 4});
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 5})), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  EXPECT_THROW(norm.backward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  EXPECT_THROW(random_norm({.dim = 4, .epsilon = -1.0}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
