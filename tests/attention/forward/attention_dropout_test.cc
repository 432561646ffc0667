// Dropout by hand, beside the random grid: forward, in decoding and in gradients.
#include "attention/attention_case.h"
#include "attention/backward/attention_backward_testing.h"

namespace qkv {
namespace {

using testing::filled;
using testing::normal;

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
  for (const Tensor* gradient : {&gradients.query, &gradients.key, &gradients.value}) {
    for (const double number : testing::values(*gradient)) ASSERT_EQ(number, 0);
  }
}

TEST_P(AttentionDropout, ATinyProbabilityIsOff) {
  Random random(3);
  const Tensor q = normal(random, {1, 2, 9, 8});
  EXPECT_TRUE(testing::same_bits(attention(q, q, q, {.dropout = {.p = 1e-6}}), attention(q, q, q)));
}

}  // namespace
}  // namespace qkv
