// Every option of a Transformer layer against plain loops in double, and token by token against the whole; stacks of
// other systems (tests/golden/layer_options); refusals. Gradients: every_layer_test.
#include "io/files_for_test.h"
#include "layers/asked_layer.h"
#include "layers/golden_file.h"
#include "layers/stack/layer_parts.h"
#include "layers/stack/layer_reference.h"

namespace qkv::testing {
namespace {

TEST(LayerOptions, AgreeWithPlainLoops) {
  Random random(2);
  const Tensor x = normal(random, {6, 8}, Dtype::f64), memory = normal(random, {5, 8}, Dtype::f64);
  for (const auto& [name, config] : layer_options()) {
    SCOPED_TRACE(name);
    Drawn drawn, other;
    const EncoderLayer encoder(config, drawn.weights);
    EXPECT_LE(difference(encoder.forward(x), reference_layer(config, drawn.tensors, x, {}, false)), 1e-13);
    EXPECT_LE(
        difference(encoder.forward(x, {.mask = Mask::causal()}), reference_layer(config, drawn.tensors, x, {}, true)),
        1e-13);
    if (is_parallel(config.norm_order)) continue;
    const DecoderLayer decoder(config, other.weights);
    EXPECT_LE(difference(decoder.forward(x, memory), reference_layer(config, other.tensors, x, memory, true)), 1e-13);
  }
}

// One token after the other, as the whole has them.
template <class Stack>
void expect_token_by_token(const Stack& stack, StackCache cache, const Tensor& x, const Tensor& whole, double bound) {
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    const Tensor next = stack.forward(x.view().slice(0, i, i + 1).reshape({1, 1, x.size(1)}), cache);
    EXPECT_LE(difference(next.view().select(0, 0), whole.view().slice(0, i, i + 1)), bound) << i;
  }
}

// A stack whose layers differ, without memory and with it.
TEST(LayerOptions, TokenByTokenIsTheCausalWhole) {
  Random random(6);
  const Tensor x = normal(random, {7, 8}, Dtype::f64), memory = normal(random, {3, 8}, Dtype::f64);
  for (const auto& [name, config] : layer_options()) {
    SCOPED_TRACE(name);
    const StackConfig stack{.layer = config, .layers = 2, .each = {config, small_layer({.rotary = RotaryConfig()})}};
    Drawn drawn, other;
    const Encoder encoder(stack, drawn.weights);
    expect_token_by_token(encoder, encoder.make_cache(1), x, encoder.forward(x, {.mask = Mask::causal()}), 1e-12);
    if (is_parallel(config.norm_order)) continue;
    const Decoder decoder(stack, other.weights);
    expect_token_by_token(decoder, decoder.make_cache(memory), x, decoder.forward(x, memory), 1e-12);
  }
}

// Decoders of transformers, causal over the whole and token by token.
TEST(LayerOptions, StacksAreThoseOfTransformers) {
  const GoldenFile golden("layer_options");
  const auto expect_parity = [&](const std::string& name, const StackConfig& config) {
    SCOPED_TRACE(name);
    const auto stack = golden.make<Encoder>(config, name + ".weights.", Dtype::f64);
    const Tensor &x = golden.at(name + ".x"), &out = golden.at(name + ".out");
    // Weights are f64, but transformers takes norms, angles and softmax in f32: some roundings of 6e-8.
    const double bound = 1e-6 * largest(out);
    EXPECT_LE(difference(stack.forward(x, {.mask = Mask::causal()}), out), bound);
    expect_token_by_token(stack, stack.make_cache(1), x, out, bound);
  };
  TransformerLayerConfig layer{.model_dim = 16,
                               .heads = 4,
                               .ff_dim = 20,
                               .activation = Activation::silu,
                               .bias = false,
                               .gated = true,
                               .norm_order = NormOrder::pre,
                               .normalization = Normalization::rms,
                               .kv_heads = 2,
                               .rotary = RotaryConfig()};
  expect_parity("llama", {.layer = layer, .layers = 2});

  TransformerLayerConfig qwen = layer;
  qwen.bias = true;
  qwen.attention_bias.out = false;
  qwen.feed_forward_bias = false;
  expect_parity("qwen2", {.layer = qwen, .layers = 2});

  layer.activation = Activation::gelu_tanh;
  layer.norm_order = NormOrder::both;
  layer.head_dim = 6;
  layer.scale = 1 / std::sqrt(5.0);
  layer.soft_cap = 2;
  TransformerLayerConfig windowed = layer;
  windowed.window = AttentionWindow{.left = 2, .right = 0};
  expect_parity("gemma2", {.layer = layer, .layers = 2, .each = {windowed, layer}});

  expect_parity("gptj", {.layer = {.model_dim = 16,
                                   .heads = 4,
                                   .ff_dim = 20,
                                   .activation = Activation::gelu_tanh,
                                   .attention_bias = {.query = false, .key = false, .value = false, .out = false},
                                   .norm_order = NormOrder::parallel,
                                   .rotary = RotaryConfig{.pairs = RotaryPairs::neighbours}},
                         .layers = 2});
}

TEST(LayerOptions, RefuseWhatDoesNotFit) {
  const auto encoder = [](Weights& w, const TransformerLayerConfig& config) {
    return EncoderLayer(small_layer(config), w);
  };
  const MultiHeadAttentionConfig extra{.model_dim = 8, .heads = 2, .zero_attention = true, .window = AttentionWindow{}};
  using Call = std::function<void(Weights&)>;
  for (const auto& [call, fragment] : std::vector<std::pair<Call, std::string>>{
           {[&](Weights& w) { encoder(w, {.kv_heads = 3}); },
            "multi_head_attention: 4 heads are not divisible by 3 kv_heads"},
           {[&](Weights& w) { encoder(w, {.kv_heads = -2}); }, "kv_heads is -2; it must be 1 to "},
           {[&](Weights& w) { encoder(w, {.head_dim = 1 << 20}); }, "heads * head_dim is 4194304; it must be 1 to "},
           {[&](Weights& w) { encoder(w, {.soft_cap = -1}); }, "soft_cap -1 must be finite"},
           {[&](Weights& w) { encoder(w, {.scale = INFINITY}); }, "scale inf"},
           {[&](Weights& w) { encoder(w, {.window = AttentionWindow{.left = -2}}); }, "the window is -2, -1"},
           {[&](Weights& w) { DecoderLayer(small_layer({.norm_order = NormOrder::parallel}), w); }, "parallel"},
           {[&](Weights& w) { Encoder({.layers = 2, .each = {small_layer({})}}, w); },
            "transformer_stack: 2 layers have 1 configs of their own; give one for each, or none"},
           {[&](Weights& w) { encoder(w, {}).make_cache(Tensor::zeros({2, 8}, Dtype::f64)); },
            "transformer_layer: it has no attention to a memory; pass none"},
           {[&](Weights& w) { DecoderLayer(small_layer({}), w).make_cache(1); },
            "transformer_layer: it attends to a memory; pass one"},
           {[&](Weights& w) { MultiHeadAttention(extra, w); }, "window"}}) {
    Drawn drawn;
    const std::string message = test::message_of<std::invalid_argument>([&] { call(drawn.weights); });
    EXPECT_NE(message.find(fragment), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace qkv::testing
