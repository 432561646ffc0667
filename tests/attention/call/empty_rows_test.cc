// empty_rows = nan by hand: NaN exactly where a query sees no key. That all else has the bits of `zero` is a relation
// of same_bits_test.cc.
#include "attention/attention_testing.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::filled;

QKV_ON_EACH_TARGET(RowsWithoutKeys);

// The second of three sequences has no keys, and the first query of the third (token 3) stands before its only one.
TEST_P(RowsWithoutKeys, OfPackedSequences) {
  const Tensor offsets_query = Tensor::of<std::int32_t>({4}, {0, 2, 3, 5});
  const Tensor offsets_key = Tensor::of<std::int32_t>({4}, {0, 4, 4, 5});
  const Tensor q = filled({5, 2, 3}, 1), k = filled({5, 1, 3}, 1);
  const Tensor rows = Tensor::of<std::int64_t>({2, 3}, {2, 1, 0, 2, 0, 1});
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right),
                                 .empty_rows = EmptyRows::nan,
                                 .offsets_query = offsets_query,
                                 .offsets_key = offsets_key};
  Tensor weights = filled({5, 2, 4}, 7), chosen = filled({2, 4}, 7);
  const Tensor out = attention(q, k, k, options, {.weights = weights, .rows = rows, .row_weights = chosen});
  const std::vector<double> numbers = testing::values(out), of_pairs = testing::values(weights);
  for (std::size_t at = 0; at < numbers.size(); ++at) EXPECT_EQ(std::isnan(numbers[at]), at / 6 == 2 || at / 6 == 3);
  // Keys of its own sequence are NaN; beyond them a row is 0.
  for (std::size_t at = 0; at < of_pairs.size(); ++at) EXPECT_EQ(std::isnan(of_pairs[at]), at / 8 == 3 && at % 4 == 0);
  const std::vector<double> found = testing::values(chosen);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(std::vector(found.begin() + 1, found.end()), std::vector<double>({0, 0, 0, 1, 0, 0, 0}));
}

// A row is empty if its log-sum-exp is -infinity: never beside a sink, always where a bias leaves nothing.
TEST_P(RowsWithoutKeys, WithSinksAndBiases) {
  const Tensor sinks = Tensor::of<double>({2}, {-1e30, -testing::kInfinity});
  const Tensor bias = filled({1, 5}, -testing::kInfinity), none = Tensor::zeros({1}, Dtype::i32);
  for (const std::int64_t q_len : {1, 3}) {
    const Tensor q = filled({2, q_len, 4}, 1), k = filled({2, 5, 4}, 1);
    for (const bool is_masked : {true, false}) {
      AttentionOptions options{.empty_rows = EmptyRows::nan};
      if (is_masked) options.mask = Mask::lengths(none);
      if (!is_masked) options.bias = Bias::view(bias);
      for (const double number : testing::values(attention(q, k, k, options))) EXPECT_TRUE(std::isnan(number));
      options.sinks = sinks;
      const Tensor out = attention(q, k, k, options);
      EXPECT_EQ(testing::difference(out.view().select(0, 0), filled({q_len, 4}, 0)), 0);
      EXPECT_EQ(testing::difference(out.view().select(0, 1), filled({q_len, 4}, testing::kNan)), 0);
    }
  }
}

// What is looked for takes a log-sum-exp, unless the caller has one.
TEST(EmptyRowsPlan, CountsTheLogSumExp) {
  const Tensor q = Tensor::zeros({2, 3, 50, 4});
  Tensor sums = Tensor::zeros({2, 3, 50});
  const std::int64_t zero = plan(q, q, q).workspace;
  EXPECT_EQ(plan(q, q, q, {.empty_rows = EmptyRows::nan}).workspace, zero + 2 * 3 * 50 * 4);
  EXPECT_EQ(plan(q, q, q, {.empty_rows = EmptyRows::nan}, {.log_sum_exp = sums}).workspace, zero);
}

}  // namespace
}  // namespace qkv
