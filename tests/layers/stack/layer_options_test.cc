// Every option of a Transformer layer against plain loops in double, its gradients against finite differences, and
// token by token against the whole.
#include <array>

#include "attention/attention_testing.h"
#include "jacobian.h"
#include "layers/stack/layer_reference.h"
#include "qkv/layers/transformer.h"

namespace qkv {
namespace {

using testing::difference;
using testing::normal;

struct Option {
  const char* name;
  TransformerLayerConfig config;
};

// Of 4 heads of 2 unless the option says otherwise.
TransformerLayerConfig small(const TransformerLayerConfig& changes) {
  TransformerLayerConfig config = changes;
  config.model_dim = 8;
  config.heads = 4;
  config.ff_dim = 5;
  config.epsilon = 1e-2;
  if (config.activation == Activation::relu) config.activation = Activation::gelu;  // relu has a bend
  return config;
}

std::vector<Option> options() {
  return {{"plain", small({})},
          {"kv_heads", small({.kv_heads = 2})},
          {"one kv_head of head_dim 3", small({.kv_heads = 1, .head_dim = 3})},
          {"bias of queries and values", small({.attention_bias = {.key = false, .out = false}})},
          {"bias of keys", small({.attention_bias = {.query = false, .value = false}, .feed_forward_bias = false})},
          {"no bias", small({.bias = false, .gated = true})},
          {"scale", small({.scale = 0.3})},
          {"soft_cap", small({.soft_cap = 0.8})},
          {"gelu_tanh", small({.activation = Activation::gelu_tanh})},
          {"gated silu", small({.activation = Activation::silu, .gated = true})},
          {"gated gelu_tanh", small({.activation = Activation::gelu_tanh, .gated = true})},
          {"pre", small({.norm_order = NormOrder::pre, .normalization = Normalization::rms})},
          {"both", small({.norm_order = NormOrder::both})},
          {"both rms", small({.norm_order = NormOrder::both, .normalization = Normalization::rms})},
          {"parallel", small({.norm_order = NormOrder::parallel})},
          {"window", small({.window = AttentionWindow{.left = 1, .right = 0}})},
          {"all", small({.activation = Activation::gelu_tanh,
                         .attention_bias = {.key = false},
                         .feed_forward_bias = false,
                         .gated = true,
                         .norm_order = NormOrder::both,
                         .normalization = Normalization::rms,
                         .kv_heads = 2,
                         .head_dim = 3,
                         .scale = 0.7,
                         .soft_cap = 1.5,
                         .window = AttentionWindow{.left = 2, .right = 0}})}};
}

// Draws whatever a layer takes, and keeps it.
struct Drawn {
  Weights weights =
      Weights([this](const std::string& name,
                     const Dims& shape) { return tensors[name] = normal(random, shape, Dtype::f64, 0.5); },
              Dtype::f64);
  Random random{1};
  std::map<std::string, Tensor> tensors;
};

TEST(LayerOptions, AgreeWithPlainLoops) {
  Random random(2);
  const Tensor x = normal(random, {6, 8}, Dtype::f64), memory = normal(random, {5, 8}, Dtype::f64);
  for (const auto& [name, config] : options()) {
    SCOPED_TRACE(name);
    Drawn drawn;
    const EncoderLayer encoder(config, drawn.weights);
    EXPECT_LE(difference(encoder.forward(x), testing::reference_layer(config, drawn.tensors, x, {}, false)), 1e-13);
    EXPECT_LE(difference(encoder.forward(x, {.mask = Mask::causal()}),
                         testing::reference_layer(config, drawn.tensors, x, {}, true)),
              1e-13);
    std::size_t count = 0;
    encoder.visit([&](const std::string& own, const Parameter& parameter) {
      EXPECT_TRUE(testing::same_bits(parameter.value, drawn.tensors.at(own))) << own;
      ++count;
    });
    EXPECT_EQ(count, drawn.tensors.size());
    if (config.norm_order == NormOrder::parallel) continue;
    Drawn other;
    const DecoderLayer decoder(config, other.weights);
    EXPECT_LE(difference(decoder.forward(x, memory), testing::reference_layer(config, other.tensors, x, memory, true)),
              1e-13);
  }
}

TEST(LayerOptions, GradientsOfEncoderLayers) {
  Random random(3);
  Tensor x = normal(random, {5, 8}, Dtype::f64);
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{2, 3}), grad_out = normal(random, {5, 8}, Dtype::f64);
  const Sequences in(x, offsets);
  for (const auto& [name, config] : options()) {
    SCOPED_TRACE(name);
    Drawn drawn;
    EncoderLayer layer(config, drawn.weights);
    testing::want_gradients(layer);
    const Dropout dropout{.p = 0.3, .seed = 4};
    EncoderLayerSaved saved;
    EXPECT_TRUE(testing::same_bits(layer.forward(in, {}, {}, saved), layer.forward(in)));
    layer.forward(in, {}, dropout, saved);
    const Tensor grad_x = layer.backward(in, {}, dropout, saved, grad_out);
    const auto loss = [&] {
      EncoderLayerSaved again;
      return testing::dot(layer.forward(in, {}, dropout, again), grad_out);
    };
    testing::expect_gradient(loss, x, grad_x, 1e-7);
    testing::expect_parameter_gradients(layer, loss, 1e-7);
  }
}

TEST(LayerOptions, GradientsOfDecoderLayers) {
  Random random(5);
  Tensor x = normal(random, {4, 8}, Dtype::f64), memory = normal(random, {3, 8}, Dtype::f64);
  const Tensor grad_out = normal(random, {4, 8}, Dtype::f64);
  for (const auto& [name, config] : options()) {
    if (std::string_view(name) != "plain" && std::string_view(name) != "all") continue;
    SCOPED_TRACE(name);
    Drawn drawn;
    DecoderLayer layer(config, drawn.weights);
    testing::want_gradients(layer);
    DecoderLayerSaved saved;
    layer.forward(x, memory, {}, {}, saved);
    Tensor grad_memory = Tensor::zeros(memory.shape(), Dtype::f64);
    const Tensor grad_x = layer.backward(x, memory, {}, {}, saved, grad_out, grad_memory);
    const auto loss = [&] { return testing::dot(layer.forward(x, memory), grad_out); };
    testing::expect_gradient(loss, x, grad_x, 1e-7);
    testing::expect_gradient(loss, memory, grad_memory, 1e-7);
    testing::expect_parameter_gradients(layer, loss, 1e-7);
  }
}

// A stack whose layers differ, without memory and with it.
TEST(LayerOptions, TokenByTokenIsTheCausalWhole) {
  Random random(6);
  const Tensor x = normal(random, {7, 8}, Dtype::f64), memory = normal(random, {3, 8}, Dtype::f64);
  const auto expect_whole = [&](const auto& stack, const Tensor& whole, StackCache cache) {
    for (std::int64_t i = 0; i < 7; ++i) {
      const Tensor next = stack.forward(x.view().slice(0, i, i + 1).reshape({1, 1, 8}), cache);
      EXPECT_LE(difference(next.view().select(0, 0), whole.view().slice(0, i, i + 1)), 1e-12) << i;
    }
  };
  for (auto& [name, config] : options()) {
    SCOPED_TRACE(name);
    StackConfig stack{.layer = config, .layers = 2, .each = {config, small({.rotary = RotaryConfig()})}};
    Drawn drawn;
    const Encoder encoder(stack, drawn.weights);
    expect_whole(encoder, encoder.forward(x, {.mask = Mask::causal()}), encoder.make_cache(1));
    if (config.norm_order == NormOrder::parallel) continue;
    Drawn other;
    const Decoder decoder(stack, other.weights);
    expect_whole(decoder, decoder.forward(x, memory), decoder.make_cache(memory));
  }
}

// Each layer of a stack is the one of its own config.
TEST(LayerOptions, LayersOfAStackMayDiffer) {
  Random random(7);
  const Tensor x = normal(random, {6, 8}, Dtype::f64);
  const TransformerLayerConfig first = small({.window = AttentionWindow{.left = 1, .right = 1}}), second = small({});
  Drawn drawn;
  const Encoder stack({.layers = 2, .each = {first, second}, .final_norm = false}, drawn.weights);
  std::array<std::map<std::string, Tensor>, 2> own;
  for (const auto& [name, tensor] : drawn.tensors) own.at(name[7] == '0' ? 0 : 1)[name.substr(9)] = tensor;
  const Tensor between = testing::reference_layer(first, own[0], x, {}, false);
  EXPECT_LE(difference(stack.forward(x), testing::reference_layer(second, own[1], between, {}, false)), 1e-13);
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(LayerOptions, RefuseWhatDoesNotFit) {
  const auto encoder = [](const TransformerLayerConfig& config) {
    return refusal([&] {
      Drawn drawn;
      const EncoderLayer layer(config, drawn.weights);
    });
  };
  EXPECT_EQ(encoder(small({.kv_heads = 3})), "multi_head_attention: 4 heads are not divisible by 3 kv_heads");
  EXPECT_NE(encoder(small({.soft_cap = -1})).find("soft_cap -1 must be finite"), std::string::npos);
  EXPECT_NE(encoder(small({.scale = INFINITY})).find("scale inf"), std::string::npos);
  EXPECT_NE(encoder(small({.window = AttentionWindow{.left = -2}})).find("the window is -2, -1"), std::string::npos);
  EXPECT_NE(refusal([] {
              Drawn drawn;
              const DecoderLayer layer(small({.norm_order = NormOrder::parallel}), drawn.weights);
            }).find("parallel"),
            std::string::npos);
  EXPECT_EQ(refusal([] {
              Drawn drawn;
              const Encoder stack({.layers = 2, .each = {small({})}}, drawn.weights);
            }),
            "transformer_stack: 2 layers have 1 configs of their own; give one for each, or none");
  EXPECT_EQ(refusal([] {
              Drawn drawn;
              const EncoderLayer layer(small({}), drawn.weights);
              layer.make_cache(Tensor::zeros({2, 8}, Dtype::f64));
            }),
            "transformer_layer: it has no attention to a memory; pass none");
  EXPECT_EQ(refusal([] {
              Drawn drawn;
              const DecoderLayer layer(small({}), drawn.weights);
              layer.make_cache(1);
            }),
            "transformer_layer: it attends to a memory; pass one");
  EXPECT_NE(refusal([] {
              Drawn drawn;
              const MultiHeadAttention layer(
                  {.model_dim = 8, .heads = 2, .zero_attention = true, .window = AttentionWindow{}}, drawn.weights);
            }).find("window"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
