// empty_rows = nan: NaN exactly where a query sees no key, told from the mask by hand; every other bit as without it.
#include "attention/attention_testing.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "qkv/attention/attention_plan.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::filled;
using testing::kInfinity;
using testing::normal;

QKV_ON_EACH_TARGET(RowsWithoutKeys);

// Row by row: NaN where `sees_nothing(row)`, else the bits of `without`.
template <class SeesNothing>
void expect_rows(const std::string& what, const Tensor& with, const Tensor& without, const SeesNothing& sees_nothing) {
  const std::int64_t size = with.size(-1), rows = size == 0 ? 0 : with.element_count() / size;
  const TensorView found = with.view().reshape({rows, size}), before = without.view().reshape({rows, size});
  for (std::int64_t row = 0; row < rows; ++row) {
    SCOPED_TRACE(what + ", row " + std::to_string(row));
    if (!sees_nothing(row)) {
      ASSERT_TRUE(testing::same_bits(found.select(0, row), before.select(0, row)));
    } else {
      for (const double value : testing::values(found.select(0, row))) ASSERT_TRUE(std::isnan(value));
    }
  }
}

// Sequence 1 of three has no keys, and every fifth query of head 1 is hidden from all.
TEST_P(RowsWithoutKeys, AreNanAndNothingElseIs) {
  Random random(1);
  const Tensor lengths = Tensor::of<std::int32_t>({3}, {7, 0, 9});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t q_len : {1, 2, 40}) {
      for (const std::int64_t k_len : {9, 1500}) {
        const Tensor q = normal(random, {3, 4, q_len, 8}, dtype), k = normal(random, {3, 2, k_len, 8}, dtype);
        Tensor visible = filled({4, q_len, k_len}, 1, Dtype::u8);
        for (std::int64_t i = 0; i < q_len; i += 5) {
          std::memset(visible.view().bytes() + (q_len + i) * k_len, 0, static_cast<std::size_t>(k_len));
        }
        AttentionOptions options{.mask = Mask::lengths(lengths) & Mask::boolean(visible)};
        const testing::Outcome without = testing::attend(q, k, k, options);
        const testing::PlainOutcome plain = testing::attend_plainly(q, k, k, options);
        options.empty_rows = EmptyRows::nan;
        const testing::Outcome with = testing::attend(q, k, k, options);
        const auto sees_nothing = [&](std::int64_t row) {
          return row / q_len / 4 == 1 || (row / q_len % 4 == 1 && row % q_len % 5 == 0);
        };
        expect_rows("output", with.out, without.out, sees_nothing);
        expect_rows("weights", with.weights, without.weights, sees_nothing);
        EXPECT_TRUE(testing::same_bits(with.log_sum_exp, without.log_sum_exp));
        EXPECT_TRUE(testing::same_bits(with.logits, without.logits));
        expect_rows("output alone", attention(q, k, k, options), plain.out, sees_nothing);
        EXPECT_LE(testing::difference(with.weights, reference::attention(q, k, k, options).weights), 1e-5);
      }
    }
  }
}

// The second sequence has no keys, and the first query of the third stands before its only one.
TEST_P(RowsWithoutKeys, OfPackedSequences) {
  const Tensor offsets_query = Tensor::of<std::int32_t>({4}, {0, 2, 3, 5});
  const Tensor offsets_key = Tensor::of<std::int32_t>({4}, {0, 4, 4, 5});
  const Tensor q = filled({5, 2, 3}, 1), k = filled({5, 1, 3}, 1);
  const Tensor rows = Tensor::of<std::int64_t>({2, 3}, {2, 1, 0, 2, 0, 1});
  AttentionOptions options{.mask = Mask::causal(Align::bottom_right)};
  options.offsets_query = offsets_query, options.offsets_key = offsets_key;
  const testing::Outcome without = testing::attend(q, k, k, options);
  options.empty_rows = EmptyRows::nan;
  const testing::Outcome with = testing::attend(q, k, k, options);
  const auto sees_nothing = [](std::int64_t row) { return row / 2 == 2 || row / 2 == 3; };
  expect_rows("output", with.out, without.out, sees_nothing);
  // Keys of its own sequence are NaN; beyond them a row is 0.
  const std::vector<double> weights = testing::values(with.weights), before = testing::values(without.weights);
  for (std::size_t at = 0; at < weights.size(); ++at) {
    const std::size_t row = at / 8, key = at % 4;
    EXPECT_EQ(std::isnan(weights[at]), row == 3 && key == 0) << at;
    if (!std::isnan(weights[at])) {
      EXPECT_EQ(weights[at], before[at]) << at;
    }
  }
  Tensor out = Tensor::zeros({5, 2, 3}), chosen = Tensor::zeros({2, 4});
  attention(q, k, k, out, options, {.rows = rows, .row_weights = chosen});
  expect_rows("output alone", out, without.out, sees_nothing);
  const std::vector<double> found = testing::values(chosen);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(std::vector(found.begin() + 1, found.end()), std::vector<double>({0, 0, 0, 1, 0, 0, 0}));
}

// A row is empty if its log-sum-exp is -infinity: never beside a sink, always where a bias leaves nothing.
TEST_P(RowsWithoutKeys, WithSinksAndBiases) {
  const Tensor sinks = Tensor::of<float>({2}, {-1e30f, -std::numeric_limits<float>::infinity()});
  const Tensor bias = filled({1, 5}, -kInfinity), none = Tensor::zeros({1}, Dtype::i32);
  for (const std::int64_t q_len : {1, 3}) {
    const Tensor q = filled({2, q_len, 4}, 1), k = filled({2, 5, 4}, 1);
    for (const AttentionOptions& given :
         {AttentionOptions{.mask = Mask::lengths(none)}, AttentionOptions{.bias = Bias::view(bias)}}) {
      AttentionOptions options = given;
      options.empty_rows = EmptyRows::nan;
      const auto all = [](std::int64_t) { return true; };
      expect_rows("without sinks", attention(q, k, k, options), q, all);
      options.sinks = sinks;
      const Tensor zeros = Tensor::zeros(q.shape());
      expect_rows("with sinks", attention(q, k, k, options), zeros, [&](std::int64_t row) { return row / q_len == 1; });
    }
  }
}

TEST_P(RowsWithoutKeys, LeaveStatisticsAlone) {
  Random random(2);
  const Tensor q = normal(random, {2, 6, 4}), k = normal(random, {2, 5, 4});
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right)};  // query 0 sees nothing
  AttentionOptions as_nan = options;
  as_nan.empty_rows = EmptyRows::nan;
  struct Statistics {
    Tensor out = Tensor::zeros({2, 6, 4}), maximum = Tensor::zeros({2, 6}), entropy = Tensor::zeros({2, 6}),
           top_keys = Tensor::zeros({2, 6, 2}, Dtype::i64), top_weights = Tensor::zeros({2, 6, 2}),
           received = Tensor::zeros({2, 5}), blocks = Tensor::zeros({2, 3, 3});
  };
  const auto ask = [&](const AttentionOptions& with) {
    Statistics found;
    attention(q, k, k, found.out, with,
              {.row_maximum = found.maximum,
               .entropy = found.entropy,
               .top_keys = found.top_keys,
               .top_weights = found.top_weights,
               .received = found.received,
               .block_weights = found.blocks});
    return found;
  };
  const Statistics a = ask(options), b = ask(as_nan);
  expect_rows("output", b.out, a.out, [](std::int64_t row) { return row % 6 == 0; });
  EXPECT_TRUE(testing::same_bits(a.maximum, b.maximum));
  EXPECT_TRUE(testing::same_bits(a.entropy, b.entropy));
  EXPECT_TRUE(testing::same_bits(a.top_keys, b.top_keys));
  EXPECT_TRUE(testing::same_bits(a.top_weights, b.top_weights));
  EXPECT_TRUE(testing::same_bits(a.received, b.received));
  EXPECT_TRUE(testing::same_bits(a.blocks, b.blocks));
}

// What is looked for takes a log-sum-exp, unless the caller has one.
TEST(EmptyRowsPlan, CountsTheLogSumExp) {
  const Tensor q = Tensor::zeros({2, 3, 50, 4}), sums = Tensor::zeros({2, 3, 50});
  const MutableTensorView place = Tensor(sums).view();
  const std::int64_t zero = plan(q, q, q).workspace;
  EXPECT_EQ(plan(q, q, q, {.empty_rows = EmptyRows::nan}).workspace, zero + 2 * 3 * 50 * 4);
  EXPECT_EQ(plan(q, q, q, {.empty_rows = EmptyRows::nan}, {.log_sum_exp = place}).workspace, zero);
}

TEST(EmptyRowsDerivatives, AreRefused) {
  Tensor q = filled({1, 2, 4}, 1), sums = filled({1, 2}, 1);
  const AttentionOptions options{.empty_rows = EmptyRows::nan};
  EXPECT_THROW(attention_backward(q, q, q, q, sums, q, options, {}), std::invalid_argument);
  Tensor moved = Tensor::zeros({1, 2, 4});
  EXPECT_THROW(attention_jvp(q, q, q, q, sums, {.query = q}, options, {.out = moved}), std::invalid_argument);
  attention_jvp(q, q, q, q, sums, {.query = q}, {}, {.out = moved});
}

}  // namespace
}  // namespace qkv
