// Numbers chosen to break a softmax: around the ends of the exponential, beyond them, infinite, not a number, denormal.
// Each has a defined outcome: what the double reference says, NaN exactly where it has NaN.
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::attend;
using testing::kInfinity;
using testing::kNan;
using testing::Outcome;

constexpr float kLargest = std::numeric_limits<float>::max();

// `logits` over the keys, for `q_len` equal queries: head_dim 1, queries 1, keys the logits, scale 1.
struct GivenLogits {
  GivenLogits(const std::vector<float>& logits, std::int64_t q_len, std::int64_t k_len) {
    q = testing::filled({q_len, 1}, 1);
    k = Tensor::zeros({k_len, 1});
    for (std::int64_t j = 0; j < k_len; ++j) k.data<float>()[j] = logits[static_cast<std::size_t>(j) % logits.size()];
    Random random(1);
    v = testing::normal(random, {k_len, 9});
  }
  Tensor q, k, v;
};

void expect_defined(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options) {
  const reference::AttentionResult exact = reference::attention(q, k, v, options);
  const Outcome outcome = attend(q, k, v, options);
  // A logit of size L is rounded by L * 2^-24 a few times; beyond 128 the cases leave no two of them close but unequal.
  const double tolerance = 4e-6 + 0x1p-22 * std::min(128.0, testing::largest(exact.logits));
  const double stored = q.dtype() == Dtype::bf16 ? 0x1p-8 : q.dtype() == Dtype::f16 ? 0x1p-11 : 0;
  EXPECT_LE(testing::difference(outcome.out, exact.out), (tolerance + stored) * std::max(1.0, testing::largest(v)));
  EXPECT_LE(testing::difference(outcome.weights, exact.weights), tolerance);
  const auto relative = [](const Tensor& wanted) { return 0x1p-21 * std::max(1.0, testing::largest(wanted)); };
  EXPECT_LE(testing::difference(outcome.log_sum_exp, exact.log_sum_exp), relative(exact.log_sum_exp));
  EXPECT_LE(testing::difference(outcome.logits, exact.logits), relative(exact.logits));
}

QKV_ON_EACH_TARGET(AttentionHostile);

TEST_P(AttentionHostile, LogitsRoundTheEndsOfTheExponential) {
  const std::vector<std::vector<float>> rows = {
      {88, -88}, {89, -89, 88.5f}, {104, 103, -104},  {-88, -89, -90},  {-103.9f, -104, -104.1f},
      {3, 3, 3}, {1e4f, -1e4f, 0}, {1e4f, 0, 0, 0},   {-1e4f, -1e4f},   {1676, -1200, 900},
      {0},       {-0.0f},          {1e-30f, -1e-30f}, {1e-42f, -1e-42f}};
  for (const auto& row : rows) {
    for (const std::int64_t k_len : {1, 5, 130, 1200}) {
      for (const std::int64_t q_len : {1, 3, 50}) {
        SCOPED_TRACE(::testing::PrintToString(row) + ", keys " + std::to_string(k_len) + ", queries " +
                     std::to_string(q_len));
        const GivenLogits in(row, q_len, k_len);
        expect_defined(in.q, in.k, in.v, {.scale = 1});
      }
    }
  }
}

// A float of 1e30 has no digits left below 1e22: equal products may come out unequal in any order of summation. What
// remains defined: only keys with the largest logit share the weight, and they share all of it.
TEST_P(AttentionHostile, LogitsBeyondTheDigitsOfFloat) {
  for (const float size : {1e9f, 1e30f, 2e38f}) {
    for (const std::int64_t k_len : {1, 5, 130, 1200}) {
      for (const std::int64_t q_len : {1, 50}) {
        SCOPED_TRACE(::testing::Message() << size << ", keys " << k_len << ", queries " << q_len);
        const GivenLogits in({size, -size, size}, q_len, k_len);
        const Outcome outcome = attend(in.q, in.k, in.v, {.scale = 1});
        for (std::int64_t i = 0; i < q_len; ++i) {
          const std::vector<double> weights = testing::values(outcome.weights.view().select(0, i));
          double sum = 0;
          for (std::size_t j = 0; j < weights.size(); ++j) {
            EXPECT_GE(weights[j], 0);
            if (j % 3 == 1) {
              EXPECT_EQ(weights[j], 0);
            }
            sum += weights[j];
          }
          ASSERT_NEAR(sum, 1, 8 * 0x1p-23);
        }
        EXPECT_LE(testing::largest(outcome.out), testing::largest(in.v) * (1 + 0x1p-20));
        for (const double value : testing::values(outcome.out)) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST_P(AttentionHostile, LowestFloatIsNotAMask) {
  for (const std::int64_t q_len : {1, 3}) {
    const GivenLogits some({1, 2, -3}, q_len, 130);
    const Tensor bias = testing::filled({q_len, 130}, -kLargest);
    expect_defined(some.q, some.k, some.v, {.bias = Bias::view(bias), .scale = 1});
  }
}

TEST_P(AttentionHostile, RisingMaximumOverManyBlocks) {
  Random random(2);
  const Tensor q = testing::filled({40, 1}, 1), v = testing::normal(random, {2500, 9});
  for (const double step : {0.05, 1.0, -1.0}) {
    Tensor k = Tensor::zeros({2500, 1});
    for (std::int64_t j = 0; j < 2500; ++j) k.data<float>()[j] = static_cast<float>(step * static_cast<double>(j));
    expect_defined(q, k, v, {.scale = 1});
  }
}

TEST_P(AttentionHostile, InfiniteAndUndefinedBiases) {
  Random random(3);
  const Tensor q = testing::normal(random, {20, 8}), k = testing::normal(random, {140, 8});
  const Tensor v = testing::normal(random, {140, 8});
  for (const double value : {kInfinity, -kInfinity, kNan}) {
    SCOPED_TRACE(value);
    Tensor bias = testing::normal(random, {20, 140});
    for (std::int64_t i = 0; i < 20; i += 3) bias.view().at<float>({i, 7 * i}) = static_cast<float>(value);
    expect_defined(q, k, v, {.bias = Bias::view(bias)});
    const Tensor everywhere = testing::filled({20, 140}, value);
    expect_defined(q, k, v, {.bias = Bias::view(everywhere)});
  }
}

TEST_P(AttentionHostile, LargeScalesAndCaps) {
  Random random(4);
  const Tensor q = testing::normal(random, {20, 8}, Dtype::f64), k = testing::normal(random, {140, 8}, Dtype::f64);
  expect_defined(q, k, k, {.scale = 1e4});  // logits of 1e5, where neighbours may be closer than float tells
  // A product that overflows is capped like any other, beside a hidden key of NaN, and there its cap is flat.
  const Tensor visible = Tensor::of<std::uint8_t>({1, 5}, {1, 1, 1, 1, 0});
  const AttentionOptions options{.mask = Mask::boolean(visible), .scale = 1, .soft_cap = 2};
  for (const double product : {1e30, static_cast<double>(kLargest), kInfinity}) {
    for (const std::int64_t q_len : {1, 3}) {
      GivenLogits in({static_cast<float>(product), static_cast<float>(-product), 2, -3, 0}, q_len, 5);
      testing::put(in.k, {4, 0}, kNan);
      expect_defined(in.q, in.k, in.v, options);
      const testing::Gradients gradients = testing::backward(in.q, in.k, in.v, testing::filled({q_len, 9}, 1), options);
      if (!std::isinf(product)) testing::expect_zeros(gradients.key.view().slice(0, 0, 2));
      EXPECT_GT(testing::largest(gradients.key.view().slice(0, 2, 4)), 0.01);
    }
  }
}

// Chunks that are hidden whole say nothing of how large the logits of the others are.
TEST_P(AttentionHostile, VeryLowLogitsBehindHiddenChunks) {
  const GivenLogits in({-2000}, 1, 3000);
  Tensor visible = testing::filled({1, 3000}, 0, Dtype::u8);
  for (std::int64_t j = 1030; j < 3000; j += 7) visible.data<std::uint8_t>()[j] = 1;
  for (const double cap : {0.0, 1e6}) {
    expect_defined(in.q, in.k, in.v, {.mask = Mask::boolean(visible), .scale = 1, .soft_cap = cap});
  }
}

TEST_P(AttentionHostile, ProductsBeyondFloat) {
  // q . k is 1e60 or -1e60: infinite in f32 as in any float computation, an ordinary number in f64.
  Random random(6);
  const Tensor q = testing::filled({4, 1}, 1e30), v = testing::normal(random, {130, 3});
  Tensor k = Tensor::zeros({130, 1});
  k.data<float>()[3] = -1e30f;
  std::vector<double> mean(3);  // of the other values
  for (std::int64_t at = 0; at < 390; ++at) {
    if (at / 3 != 3) mean[static_cast<std::size_t>(at % 3)] += v.data<float>()[at] / 129;
  }
  const Tensor wanted = Tensor::of({3}, mean);
  EXPECT_LE(testing::difference(attention(q, k, v), wanted.view().broadcast_to({4, 3})), 4e-6 * testing::largest(v));
  k.data<float>()[3] = 1e30f;
  for (const double value : testing::values(attention(q, k, v))) EXPECT_TRUE(std::isnan(value));
  expect_defined(convert(q, Dtype::f64), convert(k, Dtype::f64), convert(v, Dtype::f64), {});
}

TEST_P(AttentionHostile, Denormals) {
  Random random(7);
  const Tensor q = testing::normal(random, {6, 8}), k = testing::normal(random, {140, 8});
  const Tensor tiny = testing::normal(random, {140, 8}, Dtype::f32, 1e-40);
  expect_defined(tiny, k, k, {});
  expect_defined(q, tiny, k, {});
  // 140 products, each rounded to a multiple of 2^-149.
  const Tensor out = attention(q, k, tiny);
  EXPECT_LE(testing::difference(out, reference::attention(q, k, tiny).out), 140 * 0x1p-149);
  EXPECT_GT(testing::largest(out), 0);
}

}  // namespace
}  // namespace qkv
