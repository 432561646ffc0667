// Random gradients against the double reference: the calls of the forward grid, on every target in turn. A failure
// names its seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionBackwardGrid.Replay runs that one again.

#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/backward/attention_backward_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::AttentionCase;
using testing::largest;

// The most that a score changes per change of an element of a query, of a key and of its parameters.
struct Reach {
  double query, key, w_query = 0, w_key = 0, v = 0;
};

Reach reach_of(const AttentionCase& drawn) {
  const Score& score = drawn.options.score;
  const double query = largest(drawn.q), key = largest(drawn.k);
  if (score.v()) {
    double factors = 0;
    for (const double factor : testing::values(score.v())) factors += std::abs(factor);
    const bool joined = score.kind() == Score::Kind::concat;  // one matrix meets both
    const double weight = factors * std::max(largest(score.w_query()), joined ? 0 : largest(score.w_key()));
    const double factor = largest(score.v());
    return {weight, weight, factor * (joined ? std::max(query, key) : query), factor * key, 1};
  }
  if (score.w_query()) {
    const double weight = largest(score.w_query()) * static_cast<double>(drawn.q.size(-1));
    return {weight * key, weight * query, query * key};
  }
  double largest_row = 0;  // of Shaw's table, which queries meet like keys
  for (const RelativeTable& table : drawn.options.bias.tables()) {
    if (table.kind() == RelativeTable::Kind::shaw) largest_row = largest(table.values());
  }
  return {key + largest_row, query};
}

// Within `absolute` and a rounding to the type of `got`, also below its normal numbers.
void expect_near(const std::string& name, const TensorView& got, const TensorView& wanted, double absolute) {
  const double tiny = got.dtype() == Dtype::f16 ? 0x1p-24 : got.dtype() == Dtype::f64 ? 0x1p-1022 : 0x1p-126;
  EXPECT_EQ(testing::mismatch(got, wanted, absolute + tiny, testing::rounding(got.dtype())), "") << name;
}

void expect_like_reference(const AttentionCase& drawn, Dtype gradient_dtype) {
  testing::Choices choices(drawn.seed);
  Dims out_shape = drawn.q.shape();
  out_shape[out_shape.size() - 1] = drawn.v.size(-1);
  Tensor grad_out = testing::draw_numbers(choices, out_shape, drawn.out_dtype);
  drawn.unseen.put_into_queries(grad_out, testing::kNan);
  AttentionOptions whole = drawn.options;
  whole.dropout = {};
  const reference::AttentionResult forward = reference::attention(drawn.q, drawn.k, drawn.v, whole);
  const reference::AttentionGradients exact =
      reference::attention_backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options);
  const testing::Gradients got =
      testing::backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options, gradient_dtype, drawn.out_dtype);

  // Weights are off by the fraction `tolerance` (as in the forward grid), their gradients by that of the largest dot
  // product of grad_out and a value, and by the rounding of the stored output. Errors of a key add up over the queries,
  // each by its weight before dropout.
  const double unit = drawn.q.dtype() == Dtype::f64 ? 0x1p-29 : 1;
  const double tolerance = unit * (4e-6 + 5e-7 * largest(forward.logits));
  const double longest = testing::longest_row(grad_out);
  double slope = longest * testing::longest_row(drawn.v) * drawn.dropout_factor() *
                 (2 * tolerance + testing::rounding(drawn.out_dtype));
  if (drawn.out_dtype == Dtype::f16) {  // below its normal numbers: half of the smallest one for each of an output
    slope += longest * std::sqrt(static_cast<double>(drawn.v.size(-1))) * 0x1p-25;
  }
  const double default_scale = reference::Scorer(drawn.options.score).default_scale(drawn.q.size(-1));
  const double scale = std::abs(drawn.options.scale.value_or(default_scale));
  const double received = testing::most_received(drawn.q, drawn.k, drawn.options, forward.weights);
  const Reach reach = reach_of(drawn);
  const double chain = unit * testing::chain_error(grad_out, drawn.longest_query_length() * drawn.heads());
  expect_near("queries", got.query, exact.query, slope * scale * reach.query);
  expect_near("keys", got.key, exact.key, slope * scale * reach.key * received);
  expect_near("values", got.value, exact.value,
              (tolerance * drawn.dropout_factor() + chain) * largest(grad_out) * received);

  // Errors of a parameter add up over the rows of its head, whose weights sum to 1; those of a slope by the distance.
  double rows = 1 / static_cast<double>(std::max<std::int64_t>(drawn.heads(), 1));
  for (int i = 0; i + 1 < drawn.q.rank(); ++i) rows *= static_cast<double>(drawn.q.size(i));
  for (std::size_t n = 0; n < exact.tables.size(); ++n) {
    expect_near(fmt::format("table {}", n), got.tables[n], exact.tables[n], slope * rows);
  }
  const double distance = static_cast<double>(drawn.q.size(-2) + drawn.k.size(-2) + drawn.q.size(0) + drawn.k.size(0));
  for (std::size_t n = 0; n < exact.alibi_slopes.size(); ++n) {
    expect_near(fmt::format("slopes {}", n), got.alibi_slopes[n], exact.alibi_slopes[n], slope * rows * distance);
  }
  if (drawn.options.sinks) expect_near("sinks", got.sinks, exact.sinks, slope * rows);
  // The same of a bias, over the rows that share it; parameters of the score are shared by all rows.
  const double all_rows = static_cast<double>(drawn.batch() * drawn.heads() * drawn.longest_query_length());
  for (std::size_t n = 0; n < got.bias.size(); ++n) {
    const TensorView& bias = drawn.options.bias.views()[n];
    const double own = bias.element_count() == 0 ? 1 : static_cast<double>(bias.element_count() / bias.size(-1));
    expect_near("bias " + to_string(bias.shape()), got.bias[n], exact.bias[n], slope * all_rows / own);
  }
  const Score& score = drawn.options.score;
  const double of_score = slope * scale * all_rows;
  if (score.w_query()) {
    expect_near("score w or w_query", got.score_w_query, exact.score.w_query, of_score * reach.w_query);
  }
  if (score.w_key()) expect_near("score w_key", got.score_w_key, exact.score.w_key, of_score * reach.w_key);
  if (score.v()) expect_near("score v", got.score_v, exact.score.v, of_score * reach.v);
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
