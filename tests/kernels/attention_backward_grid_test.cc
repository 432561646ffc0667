// Random gradients against the double reference: the calls of the forward grid, on every target in turn. A failure
// names its seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionBackwardGrid.Replay runs that one again.

#include "kernels/attention_backward_testing.h"
#include "kernels/attention_case.h"
#include "reference/attention.h"
#include "reference/attention_backward.h"

namespace qkv {
namespace {

using testing::AttentionCase;

// |got - wanted| <= absolute + a rounding to got's type (f16 also below its normal numbers), for each element.
std::string mismatch(const TensorView& got, const TensorView& wanted, double absolute) {
  const std::vector<double> a = testing::values(got), b = testing::values(wanted);
  if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
  const double tiny = got.dtype() == Dtype::f16 ? 0x1p-24 : 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= absolute + tiny + testing::rounding(got.dtype()) * std::abs(b[i]))
      continue;
    return fmt::format("element {} is {}, should be {}", i, a[i], b[i]);
  }
  return "";
}

// The length of the longest row.
double longest_row(const TensorView& view) {
  const auto size = static_cast<std::size_t>(view.size(-1));
  const std::vector<double> numbers = testing::values(view);
  double largest = 0;
  for (std::size_t row = 0; row + size <= numbers.size(); row += size) {
    double sum = 0;
    for (std::size_t c = 0; c < size; ++c) sum += numbers[row + c] * numbers[row + c];
    largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

void expect_like_reference(const AttentionCase& drawn, Dtype gradient_dtype) {
  Random random(7);
  Dims out_shape = drawn.q.shape();
  out_shape[out_shape.size() - 1] = drawn.v.size(-1);
  const Tensor grad_out = testing::normal(random, out_shape, drawn.out_dtype);
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
  const double product = longest_row(grad_out) * longest_row(drawn.v) * drawn.dropout_factor();
  const double slope = product * (2 * tolerance + testing::rounding(drawn.out_dtype));
  const bool scaled = drawn.options.score.kind() == Score::Kind::scaled_dot;
  const double scale =
      std::abs(drawn.options.scale.value_or(scaled ? 1 / std::sqrt(static_cast<double>(drawn.q.size(-1))) : 1));
  const Tensor ones = testing::filled(out_shape, 1);
  AttentionOptions whole = drawn.options;
  whole.dropout = {};
  const double received = testing::largest(reference::attention_backward(drawn.q, drawn.k, drawn.v, ones, whole).value);
  const double weight = tolerance * drawn.dropout_factor();
  EXPECT_EQ(mismatch(got.query, exact.query, slope * scale * testing::largest(drawn.k)), "") << "queries";
  EXPECT_EQ(mismatch(got.key, exact.key, slope * scale * testing::largest(drawn.q) * received), "") << "keys";
  EXPECT_EQ(mismatch(got.value, exact.value, weight * testing::largest(grad_out) * received), "") << "values";
}

// Five in eight cases draw a score with gradients.
void expect_gradients(const AttentionCase& drawn) {
  const Score::Kind kind = drawn.options.score.kind();
  if (kind != Score::Kind::dot && kind != Score::Kind::scaled_dot) return;
  const bool narrow = drawn.out_dtype == drawn.q.dtype();
  expect_like_reference(drawn, narrow ? drawn.q.dtype() : testing::accumulation_of(drawn.q.dtype()));
}

TEST(AttentionBackwardGrid, RandomCases) { testing::run_cases(0, 3200, expect_gradients); }

TEST(AttentionBackwardGridSlow, RandomCases) { testing::run_cases(2'000'000, 32'000, expect_gradients); }

TEST(AttentionBackwardGrid, Replay) { testing::replay_case(expect_gradients); }

}  // namespace
}  // namespace qkv
