// Random derivatives against the double reference: the calls of the forward grid, on every target in turn. A failure
// names its seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionBackwardGrid.Replay, or AttentionTangentsGrid.Replay,
// runs that one again.
#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/tangent/attention_tangents_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::AttentionCase;
using testing::largest;
using testing::longest_row;

// Within `absolute` and a rounding to the type of `got`, also below its normal numbers.
void expect_near(const std::string& name, const TensorView& got, const TensorView& wanted, double absolute) {
  const double tiny = got.dtype() == Dtype::f16 ? 0x1p-24 : got.dtype() == Dtype::f64 ? 0x1p-1022 : 0x1p-126;
  EXPECT_EQ(testing::mismatch(got, wanted, absolute + tiny, testing::rounding(got.dtype())), "") << name;
}

// What errors are measured by. Weights, and whatever is a dot product, are off by the fraction `tolerance` of the
// largest one. Errors of a key add up over the queries, each by its weight before dropout.
struct Sizes {
  Sizes(const AttentionCase& drawn, AttentionOptions options) {
    options.dropout = {};
    const reference::AttentionResult forward = reference::attention(drawn.q, drawn.k, drawn.v, options);
    unit = drawn.q.dtype() == Dtype::f64 ? 0x1p-29 : 1;
    tolerance = testing::logit_tolerance(drawn, forward);
    scale = std::abs(options.scale.value_or(reference::Scorer(options.score).default_scale(drawn.q.size(-1))));
    received = testing::most_received(drawn.q, drawn.k, options, forward.weights);
  }
  double unit, tolerance, scale, received;
};

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

// Not of cases with a function of the user's, which has no derivative, nor with keys in pages.
void expect_gradients(const AttentionCase& drawn) {
  if (drawn.options.logit_function || drawn.paged() || !drawn.is_finite) return;
  // Where an output may round to infinity, grad_out . out is no number.
  if (drawn.out_dtype == Dtype::f16 && largest(drawn.v) * drawn.dropout_factor() > 65504) return;
  const bool narrow = drawn.out_dtype == drawn.q.dtype();
  const Dtype dtype = narrow ? drawn.q.dtype() : testing::accumulation_of(drawn.q.dtype());
  testing::Choices choices(drawn.seed);
  Dims out_shape = drawn.q.shape();
  out_shape[out_shape.size() - 1] = drawn.v.size(-1);
  Tensor grad_out = testing::draw_numbers(choices, out_shape, drawn.out_dtype);
  drawn.unseen.put_into_queries(grad_out, testing::kNan);
  const reference::AttentionGradients exact =
      reference::attention_backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options);
  const testing::Gradients got =
      testing::backward(drawn.q, drawn.k, drawn.v, grad_out, drawn.options, dtype, drawn.out_dtype);

  // Gradients of logits are off by `tolerance` twice, and by the rounding of the stored output.
  const auto [unit, tolerance, scale, received] = Sizes(drawn, drawn.options);
  const double longest = longest_row(grad_out);
  double slope =
      longest * longest_row(drawn.v) * drawn.dropout_factor() * (2 * tolerance + testing::rounding(drawn.out_dtype));
  if (drawn.out_dtype == Dtype::f16) {  // below its normal numbers: half of the smallest one for each of an output
    slope += longest * std::sqrt(static_cast<double>(drawn.v.size(-1))) * 0x1p-25;
  }
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

TEST(AttentionBackwardGrid, RandomCases) { testing::run_cases(0, 3200, expect_gradients); }

TEST(AttentionBackwardGridSlow, RandomCases) { testing::run_cases(2'000'000, 32'000, expect_gradients); }

TEST(AttentionBackwardGrid, Replay) { testing::replay_case(expect_gradients); }

// Not of cases with what has no tangents.
void expect_tangents(const AttentionCase& drawn) {
  const Score::Kind score = drawn.options.score.kind();
  const Dtype dtype = drawn.q.dtype();
  if ((score != Score::Kind::dot && score != Score::Kind::scaled_dot) || size_of(dtype) < 4) return;
  if (drawn.paged() || !drawn.is_finite) return;
  for (const RelativeTable& table : drawn.options.bias.tables()) {
    if (table.kind() == RelativeTable::Kind::shaw) return;
  }
  AttentionOptions options = drawn.options;
  options.soft_cap = 0;
  options.dropout = {};
  options.logit_function = {};
  Random random(7);
  testing::MovingArrays a(random, drawn.q, drawn.k, drawn.v);
  testing::Choices choices(drawn.seed);
  for (Tensor* tensor : {&a.tq, &a.tk, &a.tv, &a.grad_out}) {
    *tensor = testing::draw_numbers(choices, tensor->shape(), dtype);
  }
  for (const Tensor* tensor : {&a.tq, &a.grad_out}) drawn.unseen.put_into_queries(*tensor, testing::kNan);
  for (const Tensor* tensor : {&a.tk, &a.tv}) drawn.unseen.put_into_keys(*tensor, testing::kNan);
  const testing::Moved moved = testing::jvp(a, options);
  const testing::SecondGradients second = testing::double_backward(a, options);
  const reference::OutputTangents exact_moved = reference::attention_jvp(a.q, a.k, a.v, a.tangents(), options);
  const reference::SecondGradients exact =
      reference::attention_double_backward(a.q, a.k, a.v, a.grad_out, a.tangents(), options);

  // What is made of products is off by the product rule.
  const auto [unit, tolerance, scale, received] = Sizes(drawn, options);
  const double slope = 2 * scale * (longest_row(a.tq) * longest_row(a.k) + longest_row(a.q) * longest_row(a.tk));
  const double product = 2 * longest_row(a.grad_out) * longest_row(a.v);
  const double logit = slope * product + 2 * longest_row(a.grad_out) * longest_row(a.tv);
  const auto expect = [&, error = 2 * tolerance](const char* name, const Tensor& got, const Tensor& wanted,
                                                 double bound) { expect_near(name, got, wanted, error * bound); };
  expect("tangent of out", moved.out, exact_moved.out, slope * largest(a.v) + largest(a.tv));
  expect("tangent of log-sum-exp", moved.log_sum_exp, exact_moved.log_sum_exp, slope);
  expect("queries", second.query, exact.query, scale * (logit * largest(a.k) + product * largest(a.tk)));
  expect("keys", second.key, exact.key, scale * received * (logit * largest(a.q) + product * largest(a.tq)));
  expect("values", second.value, exact.value, slope * largest(a.grad_out) * received);
  EXPECT_TRUE(testing::same_bits(second.grad_out, moved.out)) << "grad_out";
}

TEST(AttentionTangentsGrid, RandomCases) { testing::run_cases(0, 400, expect_tangents); }

TEST(AttentionTangentsGridSlow, RandomCases) { testing::run_cases(3'000'000, 20'000, expect_tangents); }

TEST(AttentionTangentsGrid, Replay) { testing::replay_case(expect_tangents); }

}  // namespace
}  // namespace qkv
