// Convolutions, poolings and batch norms against torch (tests/golden/convolution/make.py), outputs and gradients, in
// both types.
#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/files.h"
#include "qkv/layers/batch_norm.h"
#include "qkv/layers/convolution.h"
#include "qkv/layers/pooling.h"

namespace qkv {
namespace {

class ConvolutionGolden : public ::testing::TestWithParam<Dtype> {
 protected:
  Tensor get(const std::string& name) const { return convert(golden_.at(name), GetParam()); }

  void expect(const Tensor& given, const std::string& name) const {
    const Tensor& wanted = golden_.at(name);
    ASSERT_EQ(given.shape(), wanted.shape()) << name;
    const double part = GetParam() == Dtype::f32 ? 1e-5 : 1e-12;
    EXPECT_LE(testing::difference(given, wanted), part * testing::largest(wanted)) << name;
  }

  Weights weights(const std::string& name) const {
    std::map<std::string, Tensor> tensors;
    for (const char* own : {"weight", "bias", "running_mean", "running_var"}) {
      if (golden_.contains(name + "." + own)) tensors[own] = get(name + "." + own);
    }
    return Weights(tensors, name, GetParam());
  }

  // forward(x), and backward(x, grad_out, grad_x).
  template <class Forward, class Backward>
  void expect_passes(const std::string& name, const Forward& forward, const Backward& backward) const {
    const Tensor x = get(name + ".x"), grad_out = get(name + ".grad_out");
    expect(forward(x), name + ".out");
    Tensor grad_x = Tensor::zeros(x.shape(), x.dtype());
    backward(x, grad_out, grad_x);
    expect(grad_x, name + ".grad_x");
  }

  template <class Layer>
  void expect_gradients(const std::string& name, const Layer& layer) const {
    layer.visit([&](const std::string& own, const Parameter& parameter) {
      if (parameter.has_gradient()) expect(parameter.gradient, name + ".grad_" + own);
    });
  }

  template <class Layer, class Config>
  void expect_layer(const std::string& name, const Config& config) const {
    Weights taken = weights(name);
    Layer layer(config, taken);
    taken.expect_empty();
    testing::want_gradients(layer);
    expect_passes(
        name, [&](const Tensor& x) { return layer.forward(x); },
        [&](const Tensor& x, const Tensor& grad_out, Tensor& grad_x) { layer.backward(x, grad_out, grad_x); });
    expect_gradients(name, layer);
  }

  template <class Pool>
  void expect_pool(const std::string& name, const Pool& pool) const {
    expect_passes(
        name, [&](const Tensor& x) { return pool.forward(x); },
        [&](const Tensor& x, const Tensor& grad_out, Tensor& grad_x) { pool.backward(x, grad_out, grad_x); });
  }

 private:
  std::map<std::string, Tensor> golden_ =
      read_safetensors(QKV_TEST_DATA "/golden/convolution/convolution.safetensors").tensors;
};

INSTANTIATE_TEST_SUITE_P(Type, ConvolutionGolden, ::testing::Values(Dtype::f32, Dtype::f64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(ConvolutionGolden, Conv1dIsTorchs) {
  expect_layer<Conv1d>("conv1d.same", Conv1dConfig{.in = 5, .out = 7, .kernel = 3, .padding = 1});
  expect_layer<Conv1d>(
      "conv1d.strided",
      Conv1dConfig{
          .in = 6, .out = 4, .kernel = 4, .stride = 3, .padding = 2, .dilation = 2, .groups = 2, .bias = false});
  expect_layer<Conv1d>("conv1d.causal", Conv1dConfig{.in = 4, .out = 6, .kernel = 3, .dilation = 4, .causal = true});
  expect_layer<Conv1d>("conv1d.depthwise", Conv1dConfig{.in = 5, .out = 5, .kernel = 7, .padding = 3, .groups = 5});
}

TEST_P(ConvolutionGolden, Conv2dIsTorchs) {
  expect_layer<Conv2d>("conv2d.same", Conv2dConfig{.in = 3, .out = 8, .kernel = {3, 3}, .padding = {1, 1}});
  expect_layer<Conv2d>(
      "conv2d.uneven",
      Conv2dConfig{
          .in = 4, .out = 6, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 3}, .dilation = {1, 2}, .groups = 2});
  expect_layer<Conv2d>("conv2d.patches", Conv2dConfig{.in = 3, .out = 10, .kernel = {4, 4}, .stride = {4, 4}});
}

TEST_P(ConvolutionGolden, PoolsAreTorchs) {
  expect_pool("pool1d.max", Pool1d({.kernel = 3, .stride = 2, .padding = 1}));
  expect_pool("pool1d.average", Pool1d({.pooling = PoolKind::average, .kernel = 2}));
  expect_pool("pool2d.max", Pool2d({.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}));
  expect_pool("pool2d.average",
              Pool2d({.pooling = PoolKind::average, .kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}}));
}

TEST_P(ConvolutionGolden, BatchNormIsTorchs) {
  expect_layer<BatchNorm>("batch_norm.running", BatchNormConfig{.dim = 5});
  for (const auto& [name, config] :
       {std::pair<std::string, BatchNormConfig>("batch_norm.training", {.dim = 5, .momentum = 0.3}),
        {"batch_norm.pictures", {.dim = 4, .epsilon = 1e-3}}}) {
    Weights taken = weights(name);
    BatchNorm norm(config, taken);
    testing::want_gradients(norm);
    BatchNormSaved saved;
    expect_passes(
        name, [&](const Tensor& x) { return norm.forward(x, saved); },
        [&](const Tensor& x, const Tensor& grad_out, Tensor& grad_x) { norm.backward(x, saved, grad_out, grad_x); });
    expect_gradients(name, norm);
    norm.visit([&](const std::string& own, const Parameter& parameter) {
      if (own == "running_mean") expect(parameter.value, name + ".next_mean");
      if (own == "running_var") expect(parameter.value, name + ".next_var");
    });
  }
}

}  // namespace
}  // namespace qkv
