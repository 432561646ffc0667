// Random gradients against the double reference: the calls of the forward grid, on every target in turn. A failure
// names its seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionBackwardGrid.Replay runs that one again.

#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::AttentionCase;

// |got - wanted| <= absolute + a rounding to got's type (also below its normal numbers), for each element.
std::string mismatch(const TensorView& got, const TensorView& wanted, double absolute) {
  const std::vector<double> a = testing::values(got), b = testing::values(wanted);
  if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
  const double tiny = got.dtype() == Dtype::f16 ? 0x1p-24 : got.dtype() == Dtype::f64 ? 0x1p-1022 : 0x1p-126;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= absolute + tiny + testing::rounding(got.dtype()) * std::abs(b[i]))
      continue;
    return fmt::format("element {} is {}, should be {}", i, a[i], b[i]);
  }
  return "";
}

// The most that a score changes per change of an element of the query, and of the key.
std::pair<double, double> reach(const AttentionCase& drawn) {
  const Score& score = drawn.options.score;
  const double largest_q = testing::largest(drawn.q), largest_k = testing::largest(drawn.k);
  if (score.v()) {
    double factors = 0;
    for (const double factor : testing::values(score.v())) factors += std::abs(factor);
    const double weight =
        std::max(testing::largest(score.w_query()), score.w_key() ? testing::largest(score.w_key()) : 0);
    return {factors * weight, factors * weight};
  }
  if (!score.w_query()) {
    double largest_row = 0;  // of Shaw's table, which queries meet like keys
    for (const RelativeTable& table : drawn.options.bias.tables()) {
      if (table.kind() == RelativeTable::Kind::shaw) largest_row = testing::largest(table.values());
    }
    return {largest_k + largest_row, largest_q};
  }
  const double weight = testing::largest(score.w_query()) * static_cast<double>(drawn.q.size(-1));
  return {weight * largest_k, weight * largest_q};
}

// The most that a score changes per change of an element of one of its parameters.
struct ParameterReach {
  double w_query, w_key, v;
};

ParameterReach parameter_reach(const AttentionCase& drawn) {
  const Score& score = drawn.options.score;
  const double largest_q = testing::largest(drawn.q), largest_k = testing::largest(drawn.k);
  if (score.kind() == Score::Kind::bilinear) return {largest_q * largest_k, 0, 0};
  const double factor = score.v() ? testing::largest(score.v()) : 0;
  const bool joined = score.kind() == Score::Kind::concat;  // one matrix meets both
  return {factor * (joined ? std::max(largest_q, largest_k) : largest_q), factor * largest_k, 1};
}

void expect_like_reference(const AttentionCase& drawn, Dtype gradient_dtype) {
  testing::Choices choices(drawn.seed);
  Dims out_shape = drawn.q.shape();
  out_shape[out_shape.size() - 1] = drawn.v.size(-1);
  Tensor grad_out = testing::draw_numbers(choices, out_shape, drawn.out_dtype);
  drawn.unseen.put_into_queries(grad_out, testing::kNan);
  const Tensor exact_logits = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options).logits;
  const reference::AttentionGradients exact =
      reference::attention_backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options);
  const testing::Gradients got =
      testing::backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options, gradient_dtype, drawn.out_dtype);

  // Weights are off by the fraction `tolerance` (as in the forward grid), their gradients by that of the largest dot
  // product of grad_out and a value, and by the rounding of the stored output. Errors of a key add up over the queries,
  // each by its weight; the sum of a key's weights is the gradient of its value under a grad_out of ones without
  // dropout.
  const double unit = drawn.q.dtype() == Dtype::f64 ? 0x1p-29 : 1;
  const double tolerance = unit * (4e-6 + 5e-7 * testing::largest(exact_logits));
  const double product = testing::longest_row(grad_out) * testing::longest_row(drawn.v) * drawn.dropout_factor();
  double slope = product * (2 * tolerance + testing::rounding(drawn.out_dtype));
  if (drawn.out_dtype == Dtype::f16) {  // below its normal numbers: half of the smallest one for each of an output
    slope += testing::longest_row(grad_out) * std::sqrt(static_cast<double>(drawn.v.size(-1))) * 0x1p-25;
  }
  const bool scaled = drawn.options.score.kind() == Score::Kind::scaled_dot;
  const double scale =
      std::abs(drawn.options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(drawn.q.size(-1))) : 1));
  const Tensor ones = testing::filled(out_shape, 1);
  AttentionOptions whole = drawn.options;
  whole.dropout = {};
  const double received = testing::largest(reference::attention_backward(drawn.q, drawn.k, drawn.v, ones, whole).value);
  const auto [reach_q, reach_k] = reach(drawn);
  const double weight = tolerance * drawn.dropout_factor();
  EXPECT_EQ(mismatch(got.query, exact.query, slope * scale * reach_q), "") << "queries";
  EXPECT_EQ(mismatch(got.key, exact.key, slope * scale * reach_k * received), "") << "keys";
  const std::int64_t summands = drawn.longest_query_length() * drawn.heads();
  const double chain = unit * testing::chain_error(grad_out, summands);
  EXPECT_EQ(mismatch(got.value, exact.value, (weight + chain) * testing::largest(grad_out) * received), "") << "values";

  // Errors of a parameter add up over the rows of its head, whose weights sum to 1; those of a slope by the distance.
  double rows = 1 / static_cast<double>(std::max<std::int64_t>(drawn.heads(), 1));
  for (int i = 0; i + 1 < drawn.q.rank(); ++i) rows *= static_cast<double>(drawn.q.size(i));
  for (std::size_t i = 0; i < exact.tables.size(); ++i) {
    EXPECT_EQ(mismatch(got.tables[i], exact.tables[i], slope * rows), "") << "table " << i;
  }
  const double distance = static_cast<double>(drawn.q.size(-2) + drawn.k.size(-2) + drawn.q.size(0) + drawn.k.size(0));
  for (std::size_t i = 0; i < exact.alibi_slopes.size(); ++i) {
    EXPECT_EQ(mismatch(got.alibi_slopes[i], exact.alibi_slopes[i], slope * rows * distance), "") << "slopes " << i;
  }
  if (drawn.options.sinks) {
    EXPECT_EQ(mismatch(got.sinks, exact.sinks, slope * rows), "") << "sinks";
  }
  // The same of a bias, over the rows that share it.
  const double all_rows = static_cast<double>(drawn.batch() * drawn.heads() * drawn.longest_query_length());
  for (std::size_t n = 0; n < got.bias.size(); ++n) {
    const TensorView& bias = drawn.options.bias.views()[n];
    const double own = bias.element_count() == 0 ? 1 : static_cast<double>(bias.element_count() / bias.size(-1));
    EXPECT_EQ(mismatch(got.bias[n], exact.bias[n], slope * all_rows / own), "") << "bias " << to_string(bias.shape());
  }
  // Parameters of the score are shared by all rows.
  const ParameterReach reaches = parameter_reach(drawn);
  const double parameter_slope = slope * scale * all_rows;
  const auto expect_parameter = [&](const char* name, const TensorView& parameter, const Tensor& found,
                                    const Tensor& wanted, double reach_of_it) {
    EXPECT_EQ(parameter ? mismatch(found, wanted, parameter_slope * reach_of_it) : "", "") << name;
  };
  const Score& score = drawn.options.score;
  expect_parameter("score w or w_query", score.w_query(), got.score_w_query, exact.score.w_query, reaches.w_query);
  expect_parameter("score w_key", score.w_key(), got.score_w_key, exact.score.w_key, reaches.w_key);
  expect_parameter("score v", score.v(), got.score_v, exact.score.v, reaches.v);
}

// Not of cases with a function of the user's, which has no derivative, nor with keys in pages.
void expect_gradients(const AttentionCase& drawn) {
  if (drawn.options.logit_function || drawn.paged() || !drawn.is_finite) return;
  const bool narrow = drawn.out_dtype == drawn.q.dtype();
  expect_like_reference(drawn, narrow ? drawn.q.dtype() : testing::accumulation_of(drawn.q.dtype()));
}

TEST(AttentionBackwardGrid, RandomCases) { testing::run_cases(0, 3200, expect_gradients); }

TEST(AttentionBackwardGridSlow, RandomCases) { testing::run_cases(2'000'000, 32'000, expect_gradients); }

TEST(AttentionBackwardGrid, Replay) { testing::replay_case(expect_gradients); }

}  // namespace
}  // namespace qkv
