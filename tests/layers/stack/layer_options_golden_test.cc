// Parity of stacks with decoders of transformers: golden/layer_options/layer_options.safetensors, made by make.py
// beside it.
#include "attention/attention_testing.h"
#include "qkv/files.h"
#include "qkv/layers/transformer.h"

namespace qkv {
namespace {

const std::map<std::string, Tensor>& golden_options() {
  static const SafeTensors file = read_safetensors(QKV_TEST_DATA "/golden/layer_options/layer_options.safetensors");
  return file.tensors;
}

// Causal over the whole, and token by token.
void expect_parity(const std::string& name, const StackConfig& config) {
  SCOPED_TRACE(name);
  std::map<std::string, Tensor> tensors;
  const std::string prefix = name + ".weights.";
  for (const auto& [key, tensor] : golden_options()) {
    if (key.starts_with(prefix)) tensors[key.substr(prefix.size())] = tensor;
  }
  Weights weights(std::move(tensors), name, Dtype::f64);
  const Encoder stack(config, weights);
  weights.expect_empty();
  const Tensor &x = golden_options().at(name + ".x"), &out = golden_options().at(name + ".out");
  // Weights are f64, but transformers takes norms, angles and softmax in f32: some roundings of 6e-8.
  const double bound = 1e-6 * testing::largest(out);
  EXPECT_LE(testing::difference(stack.forward(x, {.mask = Mask::causal()}), out), bound);
  StackCache cache = stack.make_cache(1);
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const Tensor next = stack.forward(x.view().slice(0, i, i + 1).reshape({1, 1, x.size(1)}), cache);
    EXPECT_LE(testing::difference(next.view().select(0, 0), out.view().slice(0, i, i + 1)), bound) << i;
  }
}

const TransformerLayerConfig kLlama{.model_dim = 16,
                                    .heads = 4,
                                    .ff_dim = 20,
                                    .activation = Activation::silu,
                                    .epsilon = 1e-5,
                                    .bias = false,
                                    .gated = true,
                                    .norm_order = NormOrder::pre,
                                    .normalization = Normalization::rms,
                                    .kv_heads = 2,
                                    .rotary = RotaryConfig()};

TEST(LayerOptionsGolden, Llama) { expect_parity("llama", {.layer = kLlama, .layers = 2}); }

TEST(LayerOptionsGolden, Qwen2) {
  TransformerLayerConfig layer = kLlama;
  layer.bias = true;
  layer.attention_bias.out = false;
  layer.feed_forward_bias = false;
  expect_parity("qwen2", {.layer = layer, .layers = 2});
}

TEST(LayerOptionsGolden, Gemma2) {
  TransformerLayerConfig layer = kLlama;
  layer.activation = Activation::gelu_tanh;
  layer.norm_order = NormOrder::both;
  layer.head_dim = 6;
  layer.scale = 1 / std::sqrt(5.0);
  layer.soft_cap = 2;
  TransformerLayerConfig windowed = layer;
  windowed.window = AttentionWindow{.left = 2, .right = 0};
  expect_parity("gemma2", {.layer = layer, .layers = 2, .each = {windowed, layer}});
}

TEST(LayerOptionsGolden, GptJ) {
  expect_parity("gptj", {.layer = {.model_dim = 16,
                                   .heads = 4,
                                   .ff_dim = 20,
                                   .activation = Activation::gelu_tanh,
                                   .attention_bias = {.query = false, .key = false, .value = false, .out = false},
                                   .norm_order = NormOrder::parallel,
                                   .rotary = RotaryConfig{.pairs = RotaryPairs::neighbours}},
                         .layers = 2});
}

}  // namespace
}  // namespace qkv
