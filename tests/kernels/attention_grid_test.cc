// Random calls against the double reference: every option in combination, on every target in turn. A failure names its
// seed; QKV_GRID_SEED=seed with --gtest_filter=AttentionGrid.Replay runs that one again.
#include <cstdlib>

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

// Half a unit in the last place of the stored output, relative to its size.
double rounding(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return 0x1p-8;
    case Dtype::f16:
      return 0x1p-11;
    default:
      return 0;
  }
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
  const double size = std::max(1.0, testing::largest(drawn.v));
  const double tiny = drawn.out_dtype == Dtype::f16 ? 0x1p-25 : 0;  // half of the smallest f16
  EXPECT_EQ(mismatch(out, exact.out, tolerance * size + tiny, rounding(drawn.out_dtype)), "") << "output";
  EXPECT_EQ(mismatch(log_sum_exp, exact.log_sum_exp, tolerance, 0), "") << "log-sum-exp";
  EXPECT_EQ(mismatch(weights, exact.weights, tolerance, 0), "") << "weights";
  EXPECT_EQ(mismatch(logits, exact.logits, tolerance, 0), "") << "logits";

  // Asked for nothing, the output has the same bits.
  Tensor alone = place(exact.out, drawn.out_dtype);
  attention(drawn.q, drawn.k, drawn.v, in_rank(alone), drawn.options);
  EXPECT_TRUE(testing::same_bits(alone, out)) << "output without extras";
}

void run_case(std::uint64_t seed) {
  // One case in sixteen may be large enough to cross blocks of keys in every way.
  const AttentionCase drawn(seed, seed % 16 == 0 ? 2e5 : 1e4);
  SCOPED_TRACE(fmt::format("QKV_GRID_SEED={} on {}: {}", seed, selected_target(), drawn.describe()));
  try {
    expect_like_reference(drawn);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// Seeds first <= seed < first + count, dealt to the targets in turn.
void run_cases(std::uint64_t first, std::uint64_t count) {
  const std::vector<std::string> names = testing::usable_targets();
  for (std::size_t t = 0; t < names.size(); ++t) {
    select_target(names[t]);
    for (std::uint64_t seed = first + t; seed < first + count && !::testing::Test::HasFailure(); seed += names.size()) {
      run_case(seed);
    }
  }
  select_target("");
}

TEST(AttentionGrid, RandomCases) { run_cases(0, 3000); }

TEST(AttentionGridSlow, RandomCases) { run_cases(1'000'000, 100'000); }

TEST(AttentionGrid, Replay) {
  const char* seed = std::getenv("QKV_GRID_SEED");
  if (seed == nullptr) GTEST_SKIP() << "QKV_GRID_SEED names no case";
  run_case(std::stoull(seed));
}

}  // namespace
}  // namespace qkv
