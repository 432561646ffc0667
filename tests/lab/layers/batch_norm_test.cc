// BatchNorm against plain loops in double: training, running statistics; large means, what NaN reaches, refusals.
#include "lab/layers/batch_norm.h"

#include "lab/layers/plain_convolution.h"
#include "layers/asked_layer.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::testing {
namespace {

Tensors values_of(const BatchNorm& norm) {
  Tensors all;
  norm.visit([&](const std::string& name, const Parameter& own) { all[name] = convert(own.value, Dtype::f64); });
  return all;
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, channel by channel.
std::vector<double> normalized(const Tensor& x, const double* mean, const double* variance, const Tensors& own) {
  const double *weight = own.at("weight").data<double>(), *bias = own.at("bias").data<double>();
  std::vector<double> out = values(x);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t c = static_cast<std::int64_t>(i) % x.size(-1);
    out[i] = (out[i] - mean[c]) / std::sqrt(variance[c] + 0.01) * weight[c] + bias[c];
  }
  return out;
}

// y, and the statistics of training afterwards.
TEST(BatchNorm, FormulaWrittenOut) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t dim : {1, 3, 16, 33}) {
      for (const std::int64_t count : {2, 3, 40, 1300}) {
        const BatchNormConfig config{.dim = dim, .epsilon = 0.01, .momentum = 0.25};
        TrainedBatchNorm asked(config, Dims{1, dim}, {.dtype = dtype, .lengths = {count}});
        const Tensor& x = asked.inputs[0];
        Tensors own = values_of(asked.layer), next = own;
        const std::vector<double> in = values(x);
        std::vector<double> mean(static_cast<std::size_t>(dim)), variance(mean);
        for (std::size_t i = 0; i < in.size(); ++i) mean[i % mean.size()] += in[i] / static_cast<double>(count);
        for (std::size_t i = 0; i < in.size(); ++i)
          variance[i % mean.size()] += std::pow(in[i] - mean[i % mean.size()], 2);
        for (std::size_t c = 0; c < mean.size(); ++c) {
          double& next_mean = next["running_mean"].data<double>()[c];
          double& next_variance = next["running_var"].data<double>()[c];
          next_mean = 0.75 * next_mean + 0.25 * mean[c];
          next_variance = 0.75 * next_variance + 0.25 * variance[c] / static_cast<double>(count - 1);
          variance[c] /= static_cast<double>(count);
        }
        expect_near(asked.layer.forward(x),
                    normalized(x, own["running_mean"].data<double>(), own["running_var"].data<double>(), own));
        expect_near(asked.run(Pass::train, 0)[0], normalized(x, mean.data(), variance.data(), own));
        for (const auto& [name, value] : values_of(asked.layer)) {
          expect_near(convert(value, dtype), values(next[name]), name);
        }
      }
    }
  }
}

// As torch draws it, whatever its scope is called; its statistics want no gradient.
TEST(BatchNorm, BeginsAsTheNormAlone) {
  for (const std::string scope : {"", "bn1.", "norm."}) {
    Weights weights = initial_weights(1);
    BatchNorm norm({.dim = 3, .epsilon = 0}, weights, scope);
    want_gradients(norm);
    norm.visit([&](const std::string& name, const Parameter& own) {
      const bool one = name == "weight" || name == "running_var";
      EXPECT_EQ(values(own.value), std::vector<double>(3, one ? 1.0 : 0.0)) << scope << name;
      EXPECT_EQ(own.has_gradient(), !name.starts_with("running_")) << name;
    });
    const Tensor x = Tensor::of<float>({1, 3}, {1, -2, 3});
    EXPECT_TRUE(same_bits(norm.forward(x), x));
  }
}

// A large mean with a small spread: nothing cancels, also in f32.
TEST(BatchNorm, LargeMean) {
  TrainedBatchNorm narrow(BatchNormConfig{.dim = 2}, Dims{2}, {.dtype = Dtype::f32, .lengths = {400}});
  TrainedBatchNorm exact(BatchNormConfig{.dim = 2}, Dims{2}, {.lengths = {400}, .weights = narrow.drawn.tensors});
  for (std::int64_t i = 0; i < 800; ++i) narrow.inputs[0].data<float>()[i] += 1000;
  exact.inputs[0] = convert(narrow.inputs[0], Dtype::f64);
  EXPECT_LE(difference(narrow.run(Pass::train, 0)[0], exact.run(Pass::train, 0)[0]), 1e-5);
}

TEST(BatchNorm, NanStaysInItsChannel) {
  TrainedBatchNorm asked(BatchNormConfig{.dim = 3}, Dims{3}, {.dtype = Dtype::f32, .lengths = {4}});
  put(asked.inputs[0], {1, 2}, kNan);
  const Tensor used = asked.layer.forward(asked.inputs[0]), trained = asked.run(Pass::train, 0)[0];
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(std::isnan(trained.data<float>()[i]), i % 3 == 2) << i;
    EXPECT_EQ(std::isnan(used.data<float>()[i]), i == 5) << i;
  }
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  TrainedBatchNorm asked(BatchNormConfig{.dim = 3}, Dims{3}, {.dtype = Dtype::f32, .lengths = {2}});
  BatchNorm& norm = asked.layer;
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 4})), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({1, 3}), asked.saved), std::invalid_argument);
  EXPECT_THROW(norm.forward(Tensor::zeros({0, 3}), asked.saved), std::invalid_argument);
  EXPECT_EQ(norm.forward(Tensor::zeros({0, 3})).shape(), (Dims{0, 3}));
  Tensor x = Tensor::zeros({2, 3}), wrong = Tensor::zeros({3, 3});
  EXPECT_THROW(norm.backward(x, BatchNormSaved(), x), std::invalid_argument);
  EXPECT_THROW(norm.backward(x, wrong), std::invalid_argument);
  EXPECT_THROW(norm.backward(x, x, wrong), std::invalid_argument);
  for (const BatchNormConfig& config :
       {BatchNormConfig{.dim = 3, .epsilon = -1}, {.dim = 3, .momentum = 1.5}, {.dim = 0}}) {
    EXPECT_THROW(batch_norm(config)({}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace qkv::testing
