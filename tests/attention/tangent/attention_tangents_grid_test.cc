// Random forward-mode derivatives and double backward passes against the double reference: the calls of the forward
// grid, on every target in turn, without what has no tangents. A failure names its seed; QKV_GRID_SEED=seed with
// --gtest_filter=AttentionTangentsGrid.Replay runs that one again.
#include "attention/attention_case.h"
#include "attention/attention_expectation.h"
#include "attention/tangent/attention_tangents_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::AttentionCase;
using testing::largest;
using testing::longest_row;

void expect_like_reference(const AttentionCase& drawn) {
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

  // Weights, and whatever is a dot product, are off by the fraction `tolerance` (as in the forward grid) of the largest
  // one; so is what is made of them, by the product rule. Errors of a key add up over the queries, each by its weight.
  const double unit = dtype == Dtype::f64 ? 0x1p-29 : 1;
  const reference::AttentionResult forward = reference::attention(a.q, a.k, a.v, options);
  const double tolerance = 2 * unit * (4e-6 + 5e-7 * largest(forward.logits));
  const double default_scale = reference::Scorer(options.score).default_scale(a.q.size(-1));
  const double scale = std::abs(options.scale.value_or(default_scale));
  const double slope = 2 * scale * (longest_row(a.tq) * longest_row(a.k) + longest_row(a.q) * longest_row(a.tk));
  const double product = 2 * longest_row(a.grad_out) * longest_row(a.v);
  const double logit = slope * product + 2 * longest_row(a.grad_out) * longest_row(a.tv);
  const double received = testing::most_received(a.q, a.k, options, forward.weights);
  const auto check = [&](const char* name, const Tensor& got, const Tensor& wanted, double bound) {
    const double tiny = dtype == Dtype::f64 ? 0x1p-1022 : 0x1p-126;
    EXPECT_EQ(testing::mismatch(got, wanted, tolerance * bound + tiny, 0), "") << name;
  };
  check("tangent of out", moved.out, exact_moved.out, slope * largest(a.v) + largest(a.tv));
  check("tangent of log-sum-exp", moved.log_sum_exp, exact_moved.log_sum_exp, slope);
  check("queries", second.query, exact.query, scale * (logit * largest(a.k) + product * largest(a.tk)));
  check("keys", second.key, exact.key, scale * received * (logit * largest(a.q) + product * largest(a.tq)));
  check("values", second.value, exact.value, slope * largest(a.grad_out) * received);
  EXPECT_TRUE(testing::same_bits(second.grad_out, moved.out)) << "grad_out";
}

TEST(AttentionTangentsGrid, RandomCases) { testing::run_cases(0, 400, expect_like_reference); }

TEST(AttentionTangentsGridSlow, RandomCases) { testing::run_cases(3'000'000, 20'000, expect_like_reference); }

TEST(AttentionTangentsGrid, Replay) { testing::replay_case(expect_like_reference); }

}  // namespace
}  // namespace qkv
