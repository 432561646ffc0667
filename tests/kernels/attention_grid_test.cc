// Random calls against the double reference: every option in combination, on every target in turn. A failure names its
// seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionGrid.Replay runs that one again.

#include "kernels/attention_case.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::AttentionCase;

// |got - wanted| <= absolute + relative * |wanted| for each element; equal infinities agree.
std::string mismatch(const TensorView& got, const TensorView& wanted, double absolute, double relative) {
  const std::vector<double> a = testing::values(got), b = testing::values(wanted);
  if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i])) continue;
    return fmt::format("element {} is {}, should be {}", i, a[i], b[i]);
  }
  return "";
}

void expect_like_reference(const AttentionCase& drawn) {
  const reference::AttentionResult exact = reference::attention(drawn.q, drawn.k, drawn.v, drawn.options);
  const Dtype wide = drawn.q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const auto place = [&](const Tensor& like, Dtype dtype) {
    return testing::filled(like.shape(), testing::kNan, dtype);
  };
  Tensor out = place(exact.out, drawn.out_dtype), log_sum_exp = place(exact.log_sum_exp, wide);
  Tensor weights = place(exact.weights, wide), logits = place(exact.logits, wide);
  const auto in_rank = [&](Tensor& tensor) {
    const bool one_batch = !drawn.packed() && drawn.q.rank() == 3;
    return one_batch ? tensor.view().select(0, 0) : tensor.view();
  };
  attention(drawn.q, drawn.k, drawn.v, in_rank(out), drawn.options,
            {.log_sum_exp = in_rank(log_sum_exp), .weights = in_rank(weights), .logits = in_rank(logits)});

  // A logit of size L carries a few roundings of L * epsilon / 2, which the exponential hands on to the weights.
  const double unit = wide == Dtype::f64 ? 0x1p-29 : 1;
  const double tolerance = unit * (4e-6 + 5e-7 * testing::largest(exact.logits));
  const double size = std::max(1.0, testing::largest(drawn.v)) * drawn.dropout_factor();
  const double tiny = drawn.out_dtype == Dtype::f16 ? 0x1p-25 : 0;  // half of the smallest f16
  EXPECT_EQ(mismatch(out, exact.out, tolerance * size + tiny, testing::rounding(drawn.out_dtype)), "") << "output";
  EXPECT_EQ(mismatch(log_sum_exp, exact.log_sum_exp, tolerance, 0), "") << "log-sum-exp";
  EXPECT_EQ(mismatch(weights, exact.weights, tolerance, 0), "") << "weights";
  EXPECT_EQ(mismatch(logits, exact.logits, tolerance, 0), "") << "logits";

  // Asked for nothing, the output has the same bits.
  Tensor alone = place(exact.out, drawn.out_dtype);
  attention(drawn.q, drawn.k, drawn.v, in_rank(alone), drawn.options);
  EXPECT_TRUE(testing::same_bits(alone, out)) << "output without extras";
}

TEST(AttentionGrid, RandomCases) { testing::run_cases(0, 3000, expect_like_reference); }

TEST(AttentionGridSlow, RandomCases) { testing::run_cases(1'000'000, 100'000, expect_like_reference); }

TEST(AttentionGrid, Replay) { testing::replay_case(expect_like_reference); }

}  // namespace
}  // namespace qkv
