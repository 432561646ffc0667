// LayerNorm against plain loops in double; every size around the vectors; residual, strides, threads, refusals.
#include "qkv/layers/layer_norm.h"

#include "attention/attention_testing.h"
#include "jacobian.h"

namespace qkv {
namespace {

std::vector<double> plain(const TensorView& x, const std::vector<double>& weight, const std::vector<double>& bias,
                          double epsilon) {
  const std::vector<double> in = testing::values(x);
  const std::size_t size = weight.size();
  std::vector<double> out;
  for (std::size_t row = 0; row < in.size(); row += size) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < size; ++i) mean += in[row + i] / static_cast<double>(size);
    for (std::size_t i = 0; i < size; ++i) variance += std::pow(in[row + i] - mean, 2) / static_cast<double>(size);
    for (std::size_t i = 0; i < size; ++i) {
      out.push_back((in[row + i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i]);
    }
  }
  return out;
}

LayerNorm make(const Tensor& weight, const Tensor& bias, double epsilon) {
  Weights weights({{"weight", weight}, {"bias", bias}}, "test", weight.dtype());
  return LayerNorm({.dim = weight.size(0), .epsilon = epsilon}, weights);
}

QKV_ON_EACH_TARGET(LayerNormTargets);

TEST_P(LayerNormTargets, EverySize) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const double unit = dtype == Dtype::f32 ? 6e-8 : 1.1e-16;
    for (const std::int64_t size : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 384}) {
      const Tensor weight = testing::normal(random, {size}, dtype), bias = testing::normal(random, {size}, dtype);
      const Tensor x = testing::normal(random, {5, size}, dtype, 3);
      const Tensor out = make(weight, bias, 1e-5).forward(x);
      const Tensor expected = Tensor::of({5, size}, plain(x, testing::values(weight), testing::values(bias), 1e-5));
      // A sum of `size` numbers has rounding errors of at most about that many half units, in practice their root.
      const double roundings = 8 + 2 * std::sqrt(static_cast<double>(size));
      EXPECT_LE(testing::difference(out, expected), roundings * unit * std::max(1.0, testing::largest(expected)));
    }
  }
}

// A large mean with a small spread: the squares are summed around the mean, so nothing cancels.
TEST_P(LayerNormTargets, LargeMean) {
  Random random(2);
  Tensor x = testing::normal(random, {4, 384});
  for (std::int64_t i = 0; i < x.element_count(); ++i) x.data<float>()[i] += 1000;
  const Tensor weight = testing::filled({384}, 1), bias = testing::filled({384}, 0);
  const Tensor expected = Tensor::of({4, 384}, plain(x, testing::values(weight), testing::values(bias), 1e-12));
  // Sums near 384,000 round by up to 0.016 at each of 384 steps; their root over 384 is what the mean may be off by.
  EXPECT_LE(testing::difference(make(weight, bias, 1e-12).forward(x), expected), 1e-3);
}

TEST(LayerNorm, ResidualStridesAndThreads) {
  Random random(3);
  const LayerNorm norm = make(testing::normal(random, {48}), testing::normal(random, {48}), 1e-5);
  const Tensor wide = testing::normal(random, {3000, 100}), added = testing::normal(random, {3000, 48});
  const TensorView x = wide.view().slice(1, 5, 53);
  Tensor sum = Tensor::copy(x);
  for (std::int64_t i = 0; i < sum.element_count(); ++i) sum.data<float>()[i] += added.data<float>()[i];
  const Tensor expected = norm.forward(sum);
  EXPECT_TRUE(testing::same_bits(norm.forward(x, added, 1), expected));
  EXPECT_TRUE(testing::same_bits(norm.forward(x, added, 3), expected));
  EXPECT_TRUE(testing::same_bits(norm.forward(sum.view().slice(0, 7, 8)), expected.view().slice(0, 7, 8)));
}

LayerNorm random_norm(std::int64_t dim, Normalization normalization, Dtype dtype) {
  Random random(4);
  Weights weights({{"weight", testing::normal(random, {dim}, dtype)}, {"bias", testing::normal(random, {dim}, dtype)}},
                  "test", dtype);
  LayerNorm norm({.dim = dim, .epsilon = 1e-3, .normalization = normalization}, weights);
  testing::want_gradients(norm);
  return norm;
}

// y = x / sqrt(mean of squares + epsilon) * weight + bias, written out.
TEST_P(LayerNormTargets, RootMeanSquare) {
  Random random(5);
  for (const std::int64_t size : {1, 5, 16, 33}) {
    const Tensor weight = testing::normal(random, {size}), x = testing::normal(random, {3, size});
    Weights weights({{"weight", weight}});
    const LayerNorm norm({.dim = size, .epsilon = 0.5, .bias = false, .normalization = Normalization::rms}, weights);
    const Tensor out = norm.forward(x);
    for (std::int64_t row = 0; row < 3; ++row) {
      double squares = 0;
      for (std::int64_t i = 0; i < size; ++i) squares += std::pow(x.view().at<float>({row, i}), 2);
      for (std::int64_t i = 0; i < size; ++i) {
        const double expected = x.view().at<float>({row, i}) / std::sqrt(squares / static_cast<double>(size) + 0.5);
        EXPECT_NEAR(out.view().at<float>({row, i}), expected * weight.data<float>()[i], 2e-6);
      }
    }
  }
}

TEST_P(LayerNormTargets, Gradients) {
  Random random(6);
  for (const Normalization normalization : {Normalization::layer, Normalization::rms}) {
    for (const std::int64_t dim : {1, 5, 19}) {
      LayerNorm norm = random_norm(dim, normalization, Dtype::f64);
      Tensor x = testing::normal(random, {4, dim}, Dtype::f64);
      const Tensor grad_out = testing::normal(random, {4, dim}, Dtype::f64);
      const auto loss = [&] { return testing::dot(norm.forward(x), grad_out); };
      // What is there is added to.
      Tensor grad_x = grad_out;
      norm.backward(x, grad_out, grad_x);
      for (std::int64_t i = 0; i < x.element_count(); ++i) grad_x.data<double>()[i] -= grad_out.data<double>()[i];
      testing::expect_gradient(loss, x, grad_x);
      testing::expect_parameter_gradients(norm, loss);
    }
  }
}

TEST(LayerNorm, SumIsKeptForBackward) {
  Random random(7);
  const LayerNorm norm = random_norm(48, Normalization::layer, Dtype::f32);
  const Tensor x = testing::normal(random, {3000, 48}), added = testing::normal(random, {3000, 48});
  Tensor sum = added;
  EXPECT_TRUE(testing::same_bits(norm.add_forward(x, sum, 3), norm.forward(x, added)));
  for (std::int64_t i = 0; i < sum.element_count(); ++i) {
    ASSERT_EQ(sum.data<float>()[i], x.data<float>()[i] + added.data<float>()[i]);
  }
}

TEST(LayerNorm, GradientsAreTheSameOnAnyThreads) {
  Random random(8);
  const Tensor x = testing::normal(random, {5000, 40}), grad_out = testing::normal(random, {5000, 40});
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    LayerNorm norm = random_norm(40, Normalization::layer, Dtype::f32);
    Tensor grad_x = Tensor::zeros(x.shape());
    norm.backward(x, grad_out, grad_x, threads);
    std::vector<Tensor> results{grad_x};
    norm.visit([&](const std::string&, const Parameter& own) { results.push_back(own.gradient); });
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(testing::same_bits(results[i], first[i])) << threads;
  }
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const LayerNorm norm = make(testing::filled({4}, 1), testing::filled({4}, 0), 1e-5);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 5})), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  LayerNorm own = norm;
  EXPECT_THROW(own.backward(Tensor::zeros({2, 4}), Tensor::zeros({1, 4})), std::invalid_argument);
  EXPECT_THROW(make(testing::filled({4}, 1), testing::filled({4}, 0), -1.0), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
