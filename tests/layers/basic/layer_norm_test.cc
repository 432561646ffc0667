// LayerNorm against plain loops in double; every size around the vectors; residual, strides, threads, refusals.
#include "qkv/layers/layer_norm.h"

#include "layers/asked_layer.h"

namespace qkv::testing {
namespace {

// The formula, written out.
Tensor plain_norm(const LayerNormConfig& config, const AskedLayer& asked) {
  const std::vector<double> in = values(asked.inputs[0]), w = values(asked.drawn.tensors.at("weight"));
  const std::vector<double> b = config.bias ? values(asked.drawn.tensors.at("bias")) : std::vector<double>(w.size());
  std::vector<double> out;
  const auto count = static_cast<double>(w.size());
  for (std::size_t row = 0; row < in.size(); row += w.size()) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < w.size(); ++i) mean += in[row + i] / count;
    if (config.normalization == Normalization::rms) mean = 0;
    for (std::size_t i = 0; i < w.size(); ++i) variance += std::pow(in[row + i] - mean, 2) / count;
    for (std::size_t i = 0; i < w.size(); ++i) {
      out.push_back((in[row + i] - mean) / std::sqrt(variance + config.epsilon) * w[i] + b[i]);
    }
  }
  return Tensor::of(asked.inputs[0].shape(), out);
}

using AskedNorm = PlainAsked<LayerNorm>;

QKV_ON_EACH_TARGET(LayerNormTargets);

TEST_P(LayerNormTargets, EverySize) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const double unit = dtype == Dtype::f32 ? 6e-8 : 1.1e-16;
    for (const std::int64_t size : {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 384}) {
      for (const LayerNormConfig& config :
           {LayerNormConfig{.dim = size, .epsilon = 1e-5},
            LayerNormConfig{.dim = size, .epsilon = 0.5, .bias = false, .normalization = Normalization::rms}}) {
        AskedNorm asked(config, Dims{size}, {.dtype = dtype, .lengths = {5}});
        const Tensor expected = plain_norm(config, asked);
        // A sum of `size` numbers has rounding errors of at most about that many half units, in practice their root.
        const double roundings = 8 + 2 * std::sqrt(static_cast<double>(size));
        EXPECT_LE(difference(asked.run(Pass::use, 0)[0], expected),
                  roundings * unit * std::max(1.0, largest(expected)));
      }
    }
  }
}

// A large mean with a small spread: the squares are summed around the mean, so nothing cancels.
TEST_P(LayerNormTargets, LargeMean) {
  const LayerNormConfig config{.dim = 384, .epsilon = 1e-12};
  AskedNorm asked(config, Dims{384}, {.dtype = Dtype::f32, .lengths = {4}});
  for (std::int64_t i = 0; i < 4 * 384; ++i) asked.inputs[0].data<float>()[i] += 1000;
  // Sums near 384,000 round by up to 0.016 at each of 384 steps; their root over 384 is what the mean may be off by.
  EXPECT_LE(difference(asked.run(Pass::use, 0)[0], plain_norm(config, asked)), 1e-3);
}

TEST_P(LayerNormTargets, Gradients) {
  for (const Normalization normalization : {Normalization::layer, Normalization::rms}) {
    for (const std::int64_t dim : {1, 5, 19}) {
      const LayerNormConfig config{.dim = dim, .epsilon = 1e-2, .normalization = normalization};
      expect_slopes(*norm(config)({.lengths = {4}}));
    }
  }
}

TEST(LayerNorm, ResidualStridesAndThreads) {
  const AskedNorm asked(LayerNormConfig{.dim = 48}, Dims{100}, {.dtype = Dtype::f32, .lengths = {3000}});
  const LayerNorm& norm = asked.layer;
  Random random(3);
  const Tensor added = normal(random, {3000, 48});
  const TensorView x = asked.inputs[0].view().slice(1, 5, 53);
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
  LayerNorm norm = AskedNorm(LayerNormConfig{.dim = 4}, Dims{4}, {.dtype = Dtype::f32}).layer;
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 5})), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  Tensor columns = Tensor::zeros({4, 2});
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}), {}, columns.view().transpose(0, 1)), std::invalid_argument);
  EXPECT_THROW(norm.backward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  EXPECT_THROW(testing::norm({.dim = 4, .epsilon = -1.0})({}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::testing
