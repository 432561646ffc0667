// Decoding: one query alone gives what the same query gives beside another one.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(Decode);

// The last query of a bottom-right mask sees the same keys alone as with others before it.
TEST_P(Decode, EqualsPrefill) {
  const Tensor slopes = Tensor::of<float>({6}, {0, 0.1f, 0.003f, -0.0f, 0.5f, 0});
  const Tensor sinks = Tensor::of<float>({6}, {0, 3, -3, 40, -40, -1e30f});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {2, 15, 1023, 1025, 3000}) {
      for (const std::int64_t size : {5, 64, 80}) {
        Random random(7);
        const Tensor q = normal(random, {6, 2, size}, dtype), k = normal(random, {2, k_len, size}, dtype);
        const Tensor v = normal(random, {2, k_len, size + 3}, dtype), bias = normal(random, {6, 2, k_len}, dtype);
        const Tensor clipped = normal(random, {81, 6}, dtype), t5 = normal(random, {32, 6}, dtype);
        const Tensor shaw = normal(random, {81, size}, dtype, 0.1);
        const auto of_table = [](const RelativeTable& table) { return AttentionOptions{.bias = Bias::table(table)}; };
        const AttentionOptions additions[] = {{},
                                              {.soft_cap = 30},
                                              {.bias = Bias::view(bias)},
                                              {.bias = Bias::alibi(slopes)},
                                              of_table(RelativeTable::clipped(clipped)),
                                              of_table(RelativeTable::t5(t5)),
                                              of_table(RelativeTable::shaw(shaw)),
                                              {.sinks = sinks}};
        for (std::size_t n = 0; n < std::size(additions); ++n) {
          SCOPED_TRACE(::testing::Message() << "addition " << n << ", " << k_len << " x " << size);
          AttentionOptions options = additions[n];
          options.mask = Mask::causal(Align::bottom_right) & Mask::window(2000, 0);
          const testing::Outcome prefill = testing::attend(q, k, v, options);
          if (!options.bias.views().empty()) options.bias = Bias::view(bias.view().slice(1, 1, 2));
          const testing::Outcome decode = testing::attend(q.view().slice(1, 1, 2), k, v, options);
          const auto last = [](const Tensor& rows) { return rows.view().slice(1, 1, 2); };
          // 4 units in the last place of the largest weight, which is 1, and of the largest value.
          const double units = 4 * (dtype == Dtype::f64 ? 0x1p-52 : 0x1p-23);
          EXPECT_LE(testing::difference(decode.out, last(prefill.out)), units * testing::largest(v));
          EXPECT_LE(testing::difference(decode.weights, last(prefill.weights)), units);
          EXPECT_LE(testing::difference(decode.log_sum_exp, last(prefill.log_sum_exp)),
                    units * testing::largest(prefill.log_sum_exp));
        }
      }
    }
  }
}

}  // namespace
}  // namespace qkv
