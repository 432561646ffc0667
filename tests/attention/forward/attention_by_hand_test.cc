// Sinks, dropout and merged parts by arithmetic, beside the random grid.
#include "attention/backward/attention_backward_testing.h"

namespace qkv {
namespace {

using testing::attend;
using testing::filled;
using testing::normal;
using testing::Outcome;
using testing::same_bits;

QKV_ON_EACH_TARGET(AttentionSinks);

// Queries of zeros: every key has the logit 0, so that a row of n keys and a sink s has weights 1 / (n + e^s).
TEST_P(AttentionSinks, TakePartInTheSum) {
  const std::int64_t k_len = 1500;  // more than one chunk
  const std::vector<float> sinks = {0, 2.5f, -3, 60};
  const Tensor of_heads = Tensor::of<float>({4}, sinks);
  for (const std::int64_t q_len : {1, 3, 50}) {
    const Tensor q = Tensor::zeros({4, q_len, 8}), k = filled({4, k_len, 8}, 1);
    const Tensor v = filled({4, k_len, 5}, 2);
    for (const double soft_cap : {0.0, 5.0}) {
      const testing::Outcome found = testing::attend(q, k, v, {.soft_cap = soft_cap, .sinks = of_heads});
      for (std::int64_t h = 0; h < 4; ++h) {
        const double share = std::exp(double{sinks[static_cast<std::size_t>(h)]});
        const double sum = static_cast<double>(k_len) + share;
        for (std::int64_t i = 0; i < q_len; ++i) {
          EXPECT_NEAR(found.out.view().at<float>({h, i, 4}), 2 * static_cast<double>(k_len) / sum, 1e-6);
          EXPECT_NEAR(found.log_sum_exp.view().at<float>({h, i}), std::log(sum), 1e-6 * std::log(sum));
          EXPECT_NEAR(found.weights.view().at<float>({h, i, 7}), 1 / sum, 1e-9);
          EXPECT_EQ(found.logits.view().at<float>({h, i, 7}), 0);
        }
      }
    }
  }
}

// Whatever its size, a sink neither overflows nor drowns; one of -infinity changes no bit.
TEST_P(AttentionSinks, OfAnySize) {
  Random random(1);
  for (const std::int64_t q_len : {1, 20}) {
    const Tensor q = normal(random, {3, q_len, 8}), k = normal(random, {3, 70, 8});
    const Tensor sinks = Tensor::of<double>({3}, {1e30, -1e30, -testing::kInfinity});
    const testing::Outcome with = testing::attend(q, k, k, {.sinks = sinks}), without = testing::attend(q, k, k);
    for (std::int64_t h = 1; h < 3; ++h) {
      EXPECT_TRUE(same_bits(with.out.view().select(0, h), without.out.view().select(0, h)));
      EXPECT_TRUE(same_bits(with.log_sum_exp.view().select(0, h), without.log_sum_exp.view().select(0, h)));
    }
    EXPECT_EQ(testing::largest(with.out.view().select(0, 0)), 0);
    EXPECT_FLOAT_EQ(with.log_sum_exp.view().at<float>({0, 0}), 1e30f);
  }
}

QKV_ON_EACH_TARGET(AttentionDropout);

// The rule of docs/semantics.md by hand, over keys whose numbers and blocks of eight outgrow 8, 12 and 13 bits: out is
// the mean of the values that are kept, and a value's gradient shows whether it was.
TEST_P(AttentionDropout, LongRowsKeepTheRule) {
  constexpr std::int64_t kKeys = 20'000;
  const std::uint64_t seed = 0x123456789;
  const double threshold = std::round(0.6 * 65536), factor = 65536 / threshold;
  Random random(3);
  const Tensor k = filled({1, kKeys, 1}, 1, Dtype::f64), v = normal(random, {1, kKeys, 3}, Dtype::f64);
  for (const std::int64_t q_len : {1, 3}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Tensor q = filled({1, q_len, 1}, 1, dtype), keys = convert(k, dtype), values = convert(v, dtype);
      const AttentionOptions options{.dropout = {.p = 0.4, .seed = seed}, .threads = 2};
      const Tensor out = convert(attention(q, keys, values, options), Dtype::f64);
      const Tensor of_values =
          convert(testing::backward(q, keys, values, filled({1, q_len, 3}, 1, dtype), options).value, Dtype::f64);
      std::vector<double> kept(kKeys);  // by how many queries
      for (std::int64_t i = 0; i < q_len; ++i) {
        double sum[3] = {};
        for (std::int64_t j = 0; j < kKeys; ++j) {
          const auto bits = philox({static_cast<std::uint32_t>(j / 8), static_cast<std::uint32_t>(i), 0, 0}, seed, 7);
          const std::uint32_t word = bits[static_cast<std::size_t>(j % 8 / 2)] >> (16 * (j % 2)) & 0xffff;
          if (word >= threshold) continue;
          kept[static_cast<std::size_t>(j)] += 1;
          for (std::int64_t e = 0; e < 3; ++e) sum[e] += factor / kKeys * v.view().at<double>({0, j, e});
        }
        for (std::int64_t e = 0; e < 3; ++e) {
          EXPECT_NEAR(out.view().at<double>({0, i, e}), sum[e], dtype == Dtype::f64 ? 1e-14 : 1e-6);
        }
      }
      for (std::int64_t j = 0; j < kKeys; ++j) {
        const double wanted = kept[static_cast<std::size_t>(j)] * factor / kKeys;
        ASSERT_NEAR(of_values.view().at<double>({0, j, 1}), wanted, 1e-6 * wanted) << "key " << j;
      }
    }
  }
}

TEST_P(AttentionDropout, NothingKeptIsZero) {
  Random random(2);
  const Tensor q = normal(random, {1, 2, 9, 8});
  const AttentionOptions options{.dropout = {.p = 1}};
  EXPECT_EQ(testing::largest(attention(q, q, q, options)), 0);
  const testing::Gradients gradients = testing::backward(q, q, q, q, options);
  for (const Tensor* gradient : {&gradients.query, &gradients.key, &gradients.value}) testing::expect_zeros(*gradient);
  // A tiny probability is off.
  EXPECT_TRUE(same_bits(attention(q, q, q, {.dropout = {.p = 1e-6}}), attention(q, q, q)));
}

QKV_ON_EACH_TARGET(AttentionMerge);

TEST_P(AttentionMerge, PartsInAnyOrderEqualTheWhole) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Random random(4);
    const Tensor q = normal(random, {2, 4, 33, 24}, dtype), k = normal(random, {2, 2, 1300, 24}, dtype);
    const Outcome whole = attend(q, k, k);
    const std::int64_t cuts[] = {0, 1, 140, 1180, 1300};
    std::vector<Outcome> parts;
    for (std::size_t n = 0; n < 4; ++n) {
      const TensorView keys = k.view().slice(2, cuts[n], cuts[n + 1]);
      parts.push_back(attend(q, keys, keys));
    }
    // Two f32 computations of an output below 4 that differ in every rounding.
    const double tolerance = dtype == Dtype::f64 ? 1e-14 : 4e-6;
    std::size_t order[] = {0, 1, 2, 3};
    do {
      Outcome merged = parts[order[0]];
      for (std::size_t n = 1; n < 4; ++n) {
        merge_attention(merged.out, merged.log_sum_exp, parts[order[n]].out, parts[order[n]].log_sum_exp);
      }
      EXPECT_LE(testing::difference(merged.out, whole.out), tolerance);
      EXPECT_LE(testing::difference(merged.log_sum_exp, whole.log_sum_exp), 4 * tolerance);
    } while (std::next_permutation(std::begin(order), std::end(order)));
  }
}

TEST_P(AttentionMerge, APartWithoutKeysAddsNothing) {
  Random random(5);
  const Tensor q = normal(random, {2, 4, 10, 24}), k = normal(random, {2, 2, 40, 24}),
               no_key = Tensor::zeros({2, 2, 0, 24});
  const Outcome some = attend(q, k, k), none = attend(q, no_key, no_key);
  EXPECT_EQ(testing::difference(none.out, Tensor::zeros(none.out.shape())), 0);
  EXPECT_EQ(testing::difference(none.log_sum_exp, filled({2, 4, 10}, -testing::kInfinity)), 0);
  for (const auto& [first, second, sum] :
       {std::tuple(&some, &none, &some), {&none, &some, &some}, {&none, &none, &none}}) {
    Outcome merged = *first;
    merge_attention(merged.out, merged.log_sum_exp, second->out, second->log_sum_exp);
    EXPECT_TRUE(same_bits(merged.out, sum->out));
    EXPECT_TRUE(same_bits(merged.log_sum_exp, sum->log_sum_exp));
  }
}

}  // namespace
}  // namespace qkv
