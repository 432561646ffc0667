// Multi-head attention token by token and with rotary positions: behind a cache as over whole sequences, and against
// transformers (tests/golden/rotary).
#include "layers/asked_layer.h"
#include "layers/golden_file.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv::testing {
namespace {

constexpr RotaryConfig kSlow{.base = 50}, kNeighbours{.base = 20, .pairs = RotaryPairs::neighbours};

// Outputs are sums of some twelve numbers of size 1 behind a softmax: some roundings of 6e-8 each.
constexpr double kBound = 2e-6;

MultiHeadAttention cached_layer(const std::optional<RotaryConfig>& rotary = {}) {
  Drawn drawn(Dtype::f32);
  return MultiHeadAttention({.model_dim = 12, .heads = 3, .rotary = rotary}, drawn.weights);
}

QKV_ON_EACH_TARGET(CachedAttention);

// One token and several at a time, behind sequences of different lengths.
TEST_P(CachedAttention, IsTheCausalWhole) {
  for (const std::optional<RotaryConfig>& rotary : {std::optional<RotaryConfig>(), {kSlow}, {kNeighbours}}) {
    const MultiHeadAttention layer = cached_layer(rotary);
    Random random(4);
    const Tensor first = normal(random, {17, 12}), second = normal(random, {20, 12});
    const Tensor whole_first = layer.forward(first, {.mask = Mask::causal()});
    const Tensor whole_second = layer.forward(second, {.mask = Mask::causal()});
    KeyValueCache cache = layer.make_cache(2);
    // The tokens of both from these on, so many of each; ragged to begin with.
    const auto expect_whole = [&](std::int64_t begin, std::int64_t other, std::int64_t count, std::int64_t other_count,
                                  const Mask& mask) {
      Tensor rows = Tensor::uninitialized({count + other_count, 12});
      convert(first.view().slice(0, begin, begin + count), rows.view().slice(0, 0, count));
      convert(second.view().slice(0, other, other + other_count), rows.view().slice(0, count, count + other_count));
      const Tensor offsets = offsets_of(std::vector<std::int64_t>{count, other_count});
      const Sequences x = begin == 0 ? Sequences(rows, offsets) : Sequences(rows.view().reshape({2, count, 12}));
      layer.append(x, cache);
      const Tensor out = layer.forward(x, cache, {.mask = mask});
      const TensorView both = out.view().reshape({count + other_count, 12});
      EXPECT_LE(difference(both.slice(0, 0, count), whole_first.view().slice(0, begin, begin + count)), kBound)
          << begin;
      EXPECT_LE(difference(both.slice(0, count, count + other_count),
                           whole_second.view().slice(0, other, other + other_count)),
                kBound)
          << begin;
    };
    expect_whole(0, 0, 2, 5, Mask::causal(Align::bottom_right));
    for (std::int64_t i = 0; i < 15;) {
      const std::int64_t step = i == 6 ? 4 : 1;
      expect_whole(2 + i, 5 + i, step, step, step == 1 ? Mask() : Mask::causal(Align::bottom_right));
      i += step;
    }
  }
}

TEST_P(CachedAttention, RaggedMemoryIsProjectedOnce) {
  const MultiHeadAttention layer = cached_layer();
  const auto offsets = [](const std::vector<std::int64_t>& lengths) { return offsets_of(lengths); };
  Random random(3);
  const Tensor memory = normal(random, {22, 12}), x = normal(random, {3, 1, 12});
  const Tensor ends = offsets({5, 17, 0}), ones = offsets({1, 1, 1}), two = offsets({2}), second = offsets({17});
  KeyValueCache cache = layer.make_cache(3);
  layer.append({memory.view(), ends.view()}, cache);
  const Tensor expected = layer.forward({x.view().reshape({3, 12}), ones.view()}, {memory, ends});
  EXPECT_LE(difference(layer.forward(x, cache), expected), kBound);
  // Two beginnings of the second sequence go on beside each other.
  cache.reorder(std::vector<std::int64_t>{1, 1});
  const TensorView both = x.view().slice(0, 0, 2);
  const Tensor together =
      layer.forward({both.reshape({2, 12}), two.view()}, {memory.view().slice(0, 5, 22), second.view()});
  EXPECT_LE(difference(layer.forward(both, cache), together), kBound);
}

TEST(CachedAttentionArguments, RefusesExtraKeysAndWeights) {
  Drawn drawn(Dtype::f32);
  const MultiHeadAttention extra({.model_dim = 12, .heads = 3, .zero_attention = true}, drawn.weights);
  EXPECT_THROW(extra.make_cache(1), std::invalid_argument);
  const MultiHeadAttention layer = cached_layer();
  KeyValueCache cache = layer.make_cache(1);
  const Tensor x = filled({1, 1, 12}, 1);
  layer.append(x, cache);
  Tensor place = Tensor::zeros({1, 3, 1, 1});
  EXPECT_THROW(layer.forward(x, cache, {.weights = place}), std::invalid_argument);
  EXPECT_THROW(layer.append(filled({1, 1, 13}, 1), cache), std::invalid_argument);
}

TEST(RotaryAttention, GivesWhatTransformersGives) {
  const GoldenFile golden("rotary");
  for (const auto& [name, rotary] : {std::pair<std::string, RotaryConfig>("halves", {.base = 500}),
                                     {"neighbours", {.pairs = RotaryPairs::neighbours}}}) {
    Weights weights(golden.under(name + ".", Dtype::f64), name, Dtype::f64);
    const MultiHeadAttention layer({.model_dim = 24, .heads = 3, .bias = false, .rotary = rotary}, weights);
    const Tensor out = layer.forward(golden.get(name + ".x", Dtype::f64), {.mask = Mask::causal()});
    EXPECT_LE(difference(out, golden.at(name + ".out")), 1e-13) << name;
  }
}

TEST(RotaryAttention, ObserversSeeWhatIsAttendedTo) {
  struct Keep : Observer {
    void receive(std::string_view name, const TensorView& value) override { seen[std::string(name)] = values(value); }
    std::map<std::string, std::vector<double>> seen;
  } keep;
  Drawn drawn;
  const MultiHeadAttention layer({.model_dim = 4, .heads = 1, .rotary = kSlow}, drawn.weights);
  Random random(3);
  layer.forward(normal(random, {3, 4}, Dtype::f64), {}, &keep);
  double logit = 0;
  for (std::size_t i = 0; i < 4; ++i) logit += keep.seen["query"][4 + i] * keep.seen["key"][8 + i];
  EXPECT_NEAR(keep.seen["logits"][3 + 2], logit / 2, 1e-12);
}

// Self-attention alone turns, in an encoder and in a decoder: a memory's keys stand nowhere.
TEST(RotaryAttention, Stacks) {
  const TransformerLayerConfig layer{.model_dim = 4, .heads = 2, .ff_dim = 5, .rotary = kSlow};
  Random random(8);
  const Tensor x = normal(random, {3, 4}, Dtype::f64), source = normal(random, {4, 4}, Dtype::f64);
  const Tensor reversed = [&] {
    Tensor rows = source;
    for (std::int64_t i = 0; i < 4; ++i) convert(source.view().slice(0, i, i + 1), rows.view().slice(0, 3 - i, 4 - i));
    return rows;
  }();
  Drawn drawn, other;
  const DecoderLayer decoder(layer, drawn.weights);
  EXPECT_LE(difference(decoder.forward(x, source), decoder.forward(x, reversed)), 1e-12);
  const Transformer model({.layer = layer, .encoder_layers = 1, .decoder_layers = 1}, other.weights);
  EXPECT_GT(difference(model.forward(source, x), model.forward(reversed, x)), 1e-4);
}

TEST(RotaryAttention, RefusesWhatStandsNowhere) {
  const auto made = [](MultiHeadAttentionConfig config, const RotaryConfig& rotary = {}) {
    config.rotary = rotary;
    Drawn drawn(Dtype::f32);
    return MultiHeadAttention(config, drawn.weights);
  };
  EXPECT_THROW(made({.model_dim = 6, .heads = 2}), std::invalid_argument);
  EXPECT_THROW(made({.model_dim = 8, .heads = 2, .bias_kv = true}), std::invalid_argument);
  EXPECT_THROW(made({.model_dim = 8, .heads = 2, .zero_attention = true}), std::invalid_argument);
  const MultiHeadAttention layer = made({.model_dim = 8, .heads = 2});
  const Tensor x = Tensor::zeros({3, 8});
  EXPECT_THROW(layer.forward(x, {.mask = Mask::causal(Align::bottom_right)}), std::invalid_argument);
  for (const std::vector<std::int32_t>& ends : {std::vector<std::int32_t>{0, 2}, {1, 3}, {0, 5, 3}, {0, 2147483647}}) {
    const Tensor offsets = Tensor::of<std::int32_t>({std::ssize(ends)}, ends);
    EXPECT_THROW(layer.forward({x, offsets}), std::invalid_argument);
  }
  EXPECT_THROW(made({.model_dim = 8, .heads = 2}, {.base = 0}).forward(x), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::testing
