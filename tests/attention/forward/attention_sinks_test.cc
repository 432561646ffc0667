// Attention sinks: numbers that are known, for prefill and decode, with the plain logits and with natural ones.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(AttentionSinks);

// Queries of zeros: every key has the logit 0, so that a row of n keys and a sink s has weights 1 / (n + e^s).
TEST_P(AttentionSinks, TakePartInTheSum) {
  const std::int64_t k_len = 1500;  // more than one chunk
  const std::vector<float> sinks = {0, 2.5f, -3, 60};
  const Tensor of_heads = Tensor::of<float>({4}, sinks);
  for (const std::int64_t q_len : {1, 3, 50}) {
    const Tensor q = Tensor::zeros({4, q_len, 8}), k = testing::filled({4, k_len, 8}, 1);
    const Tensor v = testing::filled({4, k_len, 5}, 2);
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
    const Tensor q = testing::normal(random, {3, q_len, 8}), k = testing::normal(random, {3, 70, 8});
    const Tensor sinks = Tensor::of<double>({3}, {1e30, -1e30, -testing::kInfinity});
    const testing::Outcome with = testing::attend(q, k, k, {.sinks = sinks}), without = testing::attend(q, k, k);
    for (std::int64_t h = 1; h < 3; ++h) {
      EXPECT_TRUE(testing::same_bits(with.out.view().select(0, h), without.out.view().select(0, h)));
      EXPECT_TRUE(testing::same_bits(with.log_sum_exp.view().select(0, h), without.log_sum_exp.view().select(0, h)));
    }
    EXPECT_EQ(testing::largest(with.out.view().select(0, 0)), 0);
    EXPECT_FLOAT_EQ(with.log_sum_exp.view().at<float>({0, 0}), 1e30f);
  }
}

}  // namespace
}  // namespace qkv
