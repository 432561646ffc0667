// Multi-head attention with rotary positions against transformers (tests/golden/rotary/make.py); ragged batches, a
// cache, gradients by finite differences, decoder layers.
#include "attention/attention_testing.h"
#include "jacobian.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/files.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/transformer.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv {
namespace {

using testing::difference;
using testing::normal;

constexpr RotaryConfig kSlow{.base = 50}, kNeighbours{.base = 20, .pairs = RotaryPairs::neighbours};

MultiHeadAttention layer_of(std::int64_t dim, std::int64_t heads, const RotaryConfig& rotary, Dtype dtype) {
  Weights weights = initial_weights(1, dtype);
  return MultiHeadAttention({.model_dim = dim, .heads = heads, .rotary = rotary}, weights);
}

TEST(RotaryAttention, GivesWhatTransformersGives) {
  const auto golden = read_safetensors(QKV_TEST_DATA "/golden/rotary/rotary.safetensors").tensors;
  for (const auto& [name, rotary] : {std::pair<std::string, RotaryConfig>("halves", {.base = 500}),
                                     {"neighbours", {.pairs = RotaryPairs::neighbours}}}) {
    Weights weights({{"in_proj_weight", golden.at(name + ".in_proj_weight")},
                     {"out_proj.weight", golden.at(name + ".out_proj.weight")}},
                    name, Dtype::f64);
    const MultiHeadAttention layer({.model_dim = 24, .heads = 3, .bias = false, .rotary = rotary}, weights);
    const Tensor x = convert(golden.at(name + ".x"), Dtype::f64), out = layer.forward(x, {.mask = Mask::causal()});
    EXPECT_LE(difference(out, golden.at(name + ".out")), 1e-13) << name;
  }
}

// Positions count from each sequence's own start.
TEST(RotaryAttention, RaggedIsEachSequenceAlone) {
  Random random(2);
  const MultiHeadAttention layer = layer_of(12, 3, kSlow, Dtype::f32);
  const std::vector<std::int64_t> lengths{5, 1, 0, 130, 9};
  const Tensor x = normal(random, {145, 12}), offsets = offsets_of(lengths);
  const Tensor out = layer.forward({x, offsets}, {.mask = Mask::causal(), .threads = 2});
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    const Tensor alone = layer.forward(x.view().slice(0, begin, begin + length), {.mask = Mask::causal()});
    EXPECT_TRUE(testing::same_bits(out.view().slice(0, begin, begin + length), alone));
    begin += length;
  }
}

TEST(RotaryAttention, ObserversSeeWhatIsAttendedTo) {
  Random random(3);
  const MultiHeadAttention layer = layer_of(4, 1, kSlow, Dtype::f64);
  const Tensor x = normal(random, {3, 4}, Dtype::f64);
  std::map<std::string, Tensor> seen;
  struct Keep : Observer {
    std::map<std::string, Tensor>* to = nullptr;
    void receive(std::string_view name, const TensorView& value) override {
      (*to)[std::string(name)] = Tensor::copy(value);
    }
  } keep;
  keep.to = &seen;
  layer.forward(x, {}, &keep);
  double logit = 0;
  for (int i = 0; i < 4; ++i) logit += seen.at("query").data<double>()[4 + i] * seen.at("key").data<double>()[8 + i];
  EXPECT_NEAR(seen.at("logits").data<double>()[3 + 2], logit / 2, 1e-12);
}

// One token and several tokens at a time, sequences of different lengths. Outputs are sums of some twelve numbers of
// size 1: some roundings of 6e-8 each.
TEST(RotaryAttention, BehindACacheIsTheCausalWhole) {
  Random random(4);
  for (const RotaryConfig& rotary : {kSlow, kNeighbours}) {
    const MultiHeadAttention layer = layer_of(12, 3, rotary, Dtype::f32);
    const Tensor first = normal(random, {17, 12}), second = normal(random, {20, 12});
    const Tensor whole_first = layer.forward(first, {.mask = Mask::causal()});
    const Tensor whole_second = layer.forward(second, {.mask = Mask::causal()});
    KeyValueCache cache = layer.make_cache(2);
    Tensor begun = Tensor::uninitialized({7, 12});
    convert(first.view().slice(0, 0, 2), begun.view().slice(0, 0, 2));
    convert(second.view().slice(0, 0, 5), begun.view().slice(0, 2, 7));
    const Tensor offsets = offsets_of(std::vector<std::int64_t>{2, 5});
    const Sequences ragged{begun, offsets};
    layer.append(ragged, cache);
    const Tensor out = layer.forward(ragged, cache, {.mask = Mask::causal(Align::bottom_right)});
    EXPECT_LE(difference(out.view().slice(0, 0, 2), whole_first.view().slice(0, 0, 2)), 2e-6);
    EXPECT_LE(difference(out.view().slice(0, 2, 7), whole_second.view().slice(0, 0, 5)), 2e-6);
    for (std::int64_t i = 0; i < 15;) {
      const std::int64_t step = i == 6 ? 4 : 1;
      Tensor x = Tensor::uninitialized({2, step, 12});
      convert(first.view().slice(0, 2 + i, 2 + i + step), x.view().select(0, 0));
      convert(second.view().slice(0, 5 + i, 5 + i + step), x.view().select(0, 1));
      layer.append(x, cache);
      const Tensor next = layer.forward(x, cache, {.mask = Mask::causal(Align::bottom_right)});
      EXPECT_LE(difference(next.view().select(0, 0), whole_first.view().slice(0, 2 + i, 2 + i + step)), 2e-6) << i;
      EXPECT_LE(difference(next.view().select(0, 1), whole_second.view().slice(0, 5 + i, 5 + i + step)), 2e-6) << i;
      i += step;
    }
  }
}

TEST(RotaryAttention, Gradients) {
  Random random(5);
  for (const RotaryConfig& rotary : {kSlow, kNeighbours}) {
    MultiHeadAttention layer = layer_of(4, 2, rotary, Dtype::f64);
    testing::want_gradients(layer);
    Tensor x = normal(random, {6, 4}, Dtype::f64), memory = normal(random, {7, 4}, Dtype::f64);
    const Tensor offsets = offsets_of(std::vector<std::int64_t>{4, 0, 2});
    const Tensor memory_offsets = offsets_of(std::vector<std::int64_t>{3, 2, 2});
    const Sequences in(x, offsets), from(memory, memory_offsets);
    const Tensor grad_out = normal(random, {6, 4}, Dtype::f64);
    MultiHeadAttentionSaved saved;
    layer.forward(in, from, from, {}, saved);
    Tensor grad_x = Tensor::zeros({6, 4}, Dtype::f64), grad_memory = Tensor::zeros({7, 4}, Dtype::f64);
    layer.backward(in, from, from, {}, saved, grad_out, {grad_x, grad_memory, grad_memory});
    const auto loss = [&] { return testing::dot(layer.forward(in, from), grad_out); };
    testing::expect_gradient(loss, x, grad_x);
    testing::expect_gradient(loss, memory, grad_memory);
    testing::expect_parameter_gradients(layer, loss);
  }
}

// Self-attention alone turns: the memory's keys stand nowhere.
TEST(RotaryAttention, DecoderLayers) {
  Random random(6);
  Tensor x = normal(random, {5, 4}, Dtype::f64), memory = normal(random, {4, 4}, Dtype::f64);
  const DecoderLayerConfig config{
      .model_dim = 4, .heads = 2, .ff_dim = 5, .activation = Activation::gelu, .epsilon = 1e-2, .rotary = kSlow};
  Weights weights = initial_weights(7, Dtype::f64);
  DecoderLayer layer(config, weights);
  testing::want_gradients(layer);
  const Tensor grad_out = normal(random, {5, 4}, Dtype::f64);
  DecoderLayerSaved saved;
  const Tensor whole = layer.forward(x, memory, {}, {}, saved);
  Tensor grad_memory = Tensor::zeros({4, 4}, Dtype::f64);
  const Tensor grad_x = layer.backward(x, memory, {}, {}, saved, grad_out, grad_memory);
  const auto loss = [&] { return testing::dot(layer.forward(x, memory), grad_out); };
  testing::expect_gradient(loss, x, grad_x, 1e-7);
  testing::expect_gradient(loss, memory, grad_memory, 1e-7);
  testing::expect_parameter_gradients(layer, loss, 1e-7);

  DecoderLayerCache cache = layer.make_cache(memory);
  for (std::int64_t i = 0; i < 5; ++i) {
    const Tensor next = layer.forward(x.view().slice(0, i, i + 1).reshape({1, 1, 4}), cache);
    EXPECT_LE(difference(next.view().select(0, 0), whole.view().slice(0, i, i + 1)), 1e-12) << i;
  }
  Tensor shuffled = Tensor::uninitialized({4, 4}, Dtype::f64);
  for (std::int64_t i = 0; i < 4; ++i) {
    convert(memory.view().slice(0, 3 - i, 4 - i), shuffled.view().slice(0, i, i + 1));
  }
  EXPECT_LE(difference(layer.forward(x, shuffled), whole), 1e-12);
}

// Reversed sources: an encoder that knows no positions would leave its rows reversed, too.
TEST(RotaryAttention, Stacks) {
  Random random(8);
  const TransformerConfig config{
      .layer =
          {.model_dim = 4, .heads = 2, .ff_dim = 5, .activation = Activation::gelu, .epsilon = 1e-2, .rotary = kSlow},
      .encoder_layers = 1,
      .decoder_layers = 1};
  Weights weights = initial_weights(9, Dtype::f64);
  Transformer model(config, weights);
  testing::want_gradients(model);
  Tensor source = normal(random, {5, 4}, Dtype::f64), target = normal(random, {4, 4}, Dtype::f64);
  const Tensor source_offsets = offsets_of(std::vector<std::int64_t>{3, 2});
  const Tensor target_offsets = offsets_of(std::vector<std::int64_t>{1, 3});
  const Sequences from(source, source_offsets), to(target, target_offsets);
  const Tensor grad_out = normal(random, {4, 4}, Dtype::f64);
  TransformerSaved saved;
  const Tensor out = model.forward(from, to, {}, {}, saved);
  const TransformerGradients gradients = model.backward(from, to, {}, {}, saved, grad_out);
  const auto loss = [&] { return testing::dot(model.forward(from, to), grad_out); };
  testing::expect_gradient(loss, source, gradients.source, 1e-7);
  testing::expect_gradient(loss, target, gradients.target, 1e-7);
  testing::expect_parameter_gradients(model, loss, 1e-7);

  Tensor reversed = Tensor::copy(source);
  for (std::int64_t i = 0; i < 3; ++i) {
    convert(source.view().slice(0, i, i + 1), reversed.view().slice(0, 2 - i, 3 - i));
  }
  const Tensor turned = model.forward({reversed, source_offsets}, to);
  EXPECT_GT(difference(turned.view().slice(0, 0, 1), out.view().slice(0, 0, 1)), 1e-4);
  EXPECT_LE(difference(turned.view().slice(0, 1, 4), out.view().slice(0, 1, 4)), 0);
}

TEST(RotaryAttention, RefusesWhatStandsNowhere) {
  const auto made = [](MultiHeadAttentionConfig config) {
    config.rotary = RotaryConfig{};
    Weights weights = initial_weights(1);
    return MultiHeadAttention(config, weights);
  };
  EXPECT_THROW(made({.model_dim = 6, .heads = 2}), std::invalid_argument);
  EXPECT_THROW(made({.model_dim = 8, .heads = 2, .bias_kv = true}), std::invalid_argument);
  EXPECT_THROW(made({.model_dim = 8, .heads = 2, .zero_attention = true}), std::invalid_argument);
  const MultiHeadAttention layer = made({.model_dim = 8, .heads = 2});
  const Tensor x = Tensor::zeros({3, 8});
  EXPECT_THROW(layer.forward(x, {.mask = Mask::causal(Align::bottom_right)}), std::invalid_argument);
  for (const std::vector<std::int32_t>& ends : {std::vector<std::int32_t>{0, 2}, {1, 3}, {0, 5, 3}, {0, 2147483647}}) {
    const Tensor offsets = Tensor::of<std::int32_t>({static_cast<std::int64_t>(ends.size())}, ends);
    EXPECT_THROW(layer.forward({x, offsets}), std::invalid_argument);
  }
  EXPECT_THROW(layer_of(8, 2, {.base = 0}, Dtype::f32).forward(x), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
