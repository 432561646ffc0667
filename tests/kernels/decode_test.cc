// Decoding: one query alone gives what the same query gives beside another one, and the same bits however the keys are
// dealt to threads.
#include "kernels/attention_testing.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(Decode);

// The last query of a bottom-right mask sees the same keys alone as with others before it.
TEST_P(Decode, EqualsPrefill) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {2, 15, 1023, 1025, 3000}) {
      for (const std::int64_t size : {5, 64, 80}) {
        Random random(7);
        const Tensor q = normal(random, {6, 2, size}, dtype);
        const Tensor k = normal(random, {2, k_len, size}, dtype), v = normal(random, {2, k_len, size + 3}, dtype);
        for (const bool natural : {false, true}) {
          AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::window(2000, 0)};
          if (natural) options.soft_cap = 30;
          const testing::Outcome prefill = testing::attend(q, k, v, options);
          const testing::Outcome decode = testing::attend(q.view().slice(1, 1, 2), k, v, options);
          // 4 units in the last place of the largest weight, which is 1, and of the largest value.
          const double units = 4 * (dtype == Dtype::f64 ? 0x1p-52 : 0x1p-23);
          EXPECT_LE(testing::difference(decode.out, prefill.out.view().slice(1, 1, 2)), units * testing::largest(v))
              << k_len << " x " << size;
          EXPECT_LE(testing::difference(decode.weights, prefill.weights.view().slice(1, 1, 2)), units);
          EXPECT_LE(testing::difference(decode.log_sum_exp, prefill.log_sum_exp.view().slice(1, 1, 2)),
                    units * testing::largest(prefill.log_sum_exp));
        }
      }
    }
  }
}

TEST_P(Decode, ThreadsAndBatchChangeNoBit) {
  Random random(8);
  const Tensor q = normal(random, {3, 8, 1, 64});
  const Tensor k = normal(random, {3, 2, 5000, 64}), v = normal(random, {3, 2, 5000, 48});
  const testing::Outcome one = testing::attend(q, k, v, {.threads = 1});
  for (const int threads : {2, 3, 4, 7, 16}) {
    const testing::Outcome many = testing::attend(q, k, v, {.threads = threads});
    EXPECT_TRUE(testing::same_bits(many.out, one.out)) << threads;
    EXPECT_TRUE(testing::same_bits(many.log_sum_exp, one.log_sum_exp)) << threads;
  }
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto part = [b](const Tensor& tensor) { return tensor.view().slice(0, b, b + 1); };
    EXPECT_TRUE(testing::same_bits(testing::attend(part(q), part(k), part(v)).out, part(one.out))) << b;
  }
}

}  // namespace
}  // namespace qkv
