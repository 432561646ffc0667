// Multi-head attention token by token, against the same layer over whole sequences.
#include "attention/attention_testing.h"
#include "qkv/attention/key_value_cache.h"
#include "qkv/layers/multi_head_attention.h"

namespace qkv {
namespace {

using testing::difference;
using testing::normal;

QKV_ON_EACH_TARGET(CachedAttention);

constexpr std::int64_t kDim = 12, kHeads = 3, kBatch = 2, kLength = 21;

MultiHeadAttention random_layer(Random& random) {
  Weights weights({{"in_proj_weight", normal(random, {3 * kDim, kDim}, Dtype::f32, 0.4)},
                   {"in_proj_bias", normal(random, {3 * kDim}, Dtype::f32, 0.4)},
                   {"out_proj.weight", normal(random, {kDim, kDim}, Dtype::f32, 0.4)},
                   {"out_proj.bias", normal(random, {kDim}, Dtype::f32, 0.4)}});
  return MultiHeadAttention({.model_dim = kDim, .heads = kHeads}, weights);
}

// Outputs are sums of some twelve numbers of size 1 behind a softmax: some roundings of 6e-8 each.
constexpr double kBound = 2e-6;

// `step` new tokens at a time.
void expect_like_causal_whole(std::uint64_t seed, std::int64_t step, const Mask& mask) {
  Random random(seed);
  const MultiHeadAttention layer = random_layer(random);
  const Tensor x = normal(random, {kBatch, kLength, kDim});
  const Tensor whole = layer.forward(x, {.mask = Mask::causal()});
  KeyValueCache cache = layer.make_cache(kBatch);
  for (std::int64_t i = 0; i < kLength; i += step) {
    const TensorView tokens = x.view().slice(1, i, i + step);
    layer.append(tokens, cache);
    EXPECT_LE(difference(layer.forward(tokens, cache, {.mask = mask}), whole.view().slice(1, i, i + step)), kBound)
        << i;
  }
}

TEST_P(CachedAttention, TokenByTokenIsTheCausalWhole) { expect_like_causal_whole(1, 1, {}); }

TEST_P(CachedAttention, SeveralNewTokensSeeWhatWasBefore) {
  expect_like_causal_whole(2, 7, Mask::causal(Align::bottom_right));
}

TEST_P(CachedAttention, RaggedMemoryIsProjectedOnce) {
  Random random(3);
  const MultiHeadAttention layer = random_layer(random);
  const std::int64_t lengths[] = {5, 17, 0};
  const Tensor offsets = offsets_of(lengths), memory = normal(random, {22, kDim}), x = normal(random, {3, 1, kDim});
  KeyValueCache cache = layer.make_cache(3);
  layer.append({memory.view(), offsets.view()}, cache);
  const std::int64_t ones[] = {1, 1, 1};
  const Tensor query_offsets = offsets_of(ones);
  const Tensor expected = layer.forward({x.view().reshape({3, kDim}), query_offsets.view()}, {memory, offsets});
  EXPECT_LE(difference(layer.forward(x, cache).view().reshape({3, kDim}), expected), kBound);
  // Two beginnings of the second sequence go on beside each other.
  cache.reorder(std::vector<std::int64_t>{1, 1});
  const Tensor two = layer.forward(x.view().slice(0, 0, 2), cache);
  const std::int64_t both[] = {2};
  const Tensor together =
      layer.forward({x.view().slice(0, 0, 2).reshape({2, kDim}), offsets_of(both).view()},
                    {memory.view().slice(0, 5, 22), offsets_of(std::vector<std::int64_t>{17}).view()});
  EXPECT_LE(difference(two.view().reshape({2, kDim}), together), kBound);
}

TEST(CachedAttentionArguments, RefusesExtraKeysAndWeights) {
  Random random(4);
  Weights weights(
      {{"in_proj_weight", normal(random, {3 * kDim, kDim})}, {"out_proj.weight", normal(random, {kDim, kDim})}});
  const MultiHeadAttention extra({.model_dim = kDim, .heads = kHeads, .bias = false, .zero_attention = true}, weights);
  EXPECT_THROW(extra.make_cache(1), std::invalid_argument);

  const MultiHeadAttention layer = random_layer(random);
  KeyValueCache cache = layer.make_cache(1);
  const Tensor x = normal(random, {1, 1, kDim});
  layer.append(x, cache);
  Tensor place = Tensor::zeros({1, kHeads, 1, 1});
  EXPECT_THROW(layer.forward(x, cache, {.weights = place}), std::invalid_argument);
  EXPECT_THROW(layer.append(normal(random, {1, 1, kDim + 1}), cache), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
