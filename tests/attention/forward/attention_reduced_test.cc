// Precision reduced: within its bound of the double reference, the bits that rounding the inputs beforehand gives, the
// contract of reproducibility, and the exact kernel's bits wherever there is none of its own.
#include "attention/attention_case.h"
#include "attention/attention_testing.h"
#include "attention/forward/reduced_expectation.h"
#include "qkv/attention/attention_plan.h"

namespace qkv {
namespace {

using testing::attend;
using testing::Outcome;

AttentionOptions reduced(AttentionOptions options = {}) {
  options.precision = Precision::reduced;
  return options;
}

constexpr const Tensor Outcome::* kParts[] = {&Outcome::out, &Outcome::log_sum_exp, &Outcome::weights,
                                              &Outcome::logits};

using AttentionReduced = testing::OnEachTarget;

// None on most CPUs.
std::vector<std::string> reduced_targets() {
  std::vector<std::string> names;
  for (const std::string& name : testing::usable_targets()) {
    select_target(name);
    if (has_reduced_precision()) names.push_back(name);
  }
  select_target("");
  return names;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionReduced);
INSTANTIATE_TEST_SUITE_P(Target, AttentionReduced, ::testing::ValuesIn(reduced_targets()),
                         testing::test_name_of_target);

// Masks, biases, scores, types, strides, forms and sizes of every kind: within the bound on one target, with the same
// bits on the others. At least a tenth of the cases must be reduced: numbers of many kinds, single queries and f64 are
// not.
void expect_bound(std::uint64_t first, std::uint64_t last) {
  const std::vector<std::string> names = reduced_targets();
  if (names.empty()) GTEST_SKIP() << "no target with a kernel of its own here";
  std::uint64_t differing = 0;
  for (std::uint64_t seed = first; seed < last && !::testing::Test::HasFailure(); ++seed) {
    select_target(names[0]);
    testing::run_case(seed, [&](const testing::AttentionCase& drawn) {
      const testing::ReducedOutcome outcome = testing::reduced_outcome(drawn);
      EXPECT_EQ(outcome.found, "");
      differing += outcome.is_different;
      for (std::size_t n = 1; n < names.size() && outcome.is_different; ++n) {
        SCOPED_TRACE(names[n]);
        select_target(names[n]);
        const Outcome other = testing::attend_drawn(drawn, Precision::reduced, outcome.got);
        for (const Tensor Outcome::* part : kParts) {
          EXPECT_EQ(testing::difference(other.*part, outcome.got.*part), 0);  // NaN have signs of no meaning
        }
      }
    });
  }
  select_target("");
  EXPECT_GT(10 * differing, last - first);
}

TEST(AttentionReducedTargets, StayWithinTheBound) { expect_bound(1, 101); }

TEST(AttentionReducedTargets, StayWithinTheBoundSlow) { expect_bound(101, 600); }

struct ReducedInputs {
  ReducedInputs(std::uint64_t seed, const Dims& rows, std::int64_t k_len, std::int64_t head_dim, std::int64_t value_dim,
                Dtype dtype = Dtype::f32) {
    Random random(seed);
    q = testing::normal(random, {rows[0], rows[1], rows[2], head_dim}, dtype);
    k = testing::normal(random, {rows[0], rows[1], k_len, head_dim}, dtype);
    v = testing::normal(random, {rows[0], rows[1], k_len, value_dim}, dtype);
  }
  ReducedInputs as(Dtype dtype) const {
    ReducedInputs other = *this;
    for (Tensor* tensor : {&other.q, &other.k, &other.v}) *tensor = convert(*tensor, dtype);
    return other;
  }
  Outcome attend(const AttentionOptions& options) const { return testing::attend(q, k, v, options); }
  Tensor q, k, v;
};

// Rounding the inputs beforehand, to nearest and by other code, changes no bit; nor does where bf16 is kept.
TEST_P(AttentionReduced, RoundsInputsToNearest) {
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100}) {
    SCOPED_TRACE(size);
    const ReducedInputs inputs(static_cast<std::uint64_t>(size), {1, 2, 51}, 131, size, 101 - size);
    const ReducedInputs rounded = inputs.as(Dtype::bf16);
    const Outcome outcome = inputs.attend(reduced());
    expect_same(outcome, rounded.as(Dtype::f32).attend(reduced()));
    Tensor out = testing::filled(outcome.out.shape(), testing::kNan);
    attention(rounded.q, rounded.k, rounded.v, out, reduced());
    EXPECT_TRUE(testing::same_bits(out, outcome.out));
    EXPECT_FALSE(testing::same_bits(outcome.out, inputs.attend({}).out));
  }
}

// Masks, numbers that are hidden, huge or none, several blocks and chunks of keys.
TEST(AttentionReducedTargets, HaveTheSameBits) {
  const std::vector<std::string> names = reduced_targets();
  if (names.size() < 2) GTEST_SKIP() << "no two targets here";
  std::vector<Outcome> first;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    select_target(name);
    std::vector<Outcome> all;
    for (const std::int64_t size : {1, 24, 33, 100}) {
      ReducedInputs inputs(16, {2, 2, 75}, size == 24 ? 1200 : 200, size, 101 - size);
      for (const double scale : {0.3, -1.0, 1e-20}) {
        for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(50, 9)}) {
          all.push_back(inputs.attend(reduced({.mask = mask, .scale = scale, .threads = 2})));
        }
        for (const double special : {1e-40, 1e25, testing::kInfinity, testing::kNan}) {
          testing::put(inputs.v, {1, 1, static_cast<std::int64_t>(all.size()), 0}, special);
        }
      }
      testing::put(inputs.k, {0, 1, 7, 0}, 1e-39);
      testing::put(inputs.q, {0, 1, 9, 0}, 1e20);
      all.push_back(inputs.attend(reduced({.soft_cap = 3})));
    }
    if (first.empty()) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(testing::difference(all[i].out, first[i].out), 0);
      EXPECT_EQ(testing::difference(all[i].log_sum_exp, first[i].log_sum_exp), 0);
    }
  }
  select_target("");
}

TEST(AttentionReducedPairs, StayWithinTheBoundWithBitsOfTheirOwn) {
  if (!testing::has_target("avx512-bf16")) GTEST_SKIP() << "this CPU does not multiply pairs";
  select_target("avx512-bf16");
  std::uint64_t differing = 0;
  for (std::uint64_t seed = 1; seed < 61; ++seed) {
    testing::run_case(seed, [&](const testing::AttentionCase& drawn) {
      const testing::ReducedOutcome outcome = testing::reduced_outcome(drawn, Precision::reduced_pairs);
      EXPECT_EQ(outcome.found, "");
      differing += outcome.is_different;
    });
  }
  EXPECT_GT(differing, 6u);
  const ReducedInputs inputs(16, {1, 2, 50}, 100, 64, 64);
  const Outcome pairs = inputs.attend({.precision = Precision::reduced_pairs});
  EXPECT_FALSE(testing::same_bits(pairs.out, inputs.attend(reduced()).out));
  select_target("avx512");
  expect_same(inputs.attend({.precision = Precision::reduced_pairs}), inputs.attend({}));
  select_target("");
}

// ReducedInputs that bf16 holds give exact products: only weights are rounded, whatever the size of the logits.
TEST_P(AttentionReduced, HugeLogits) {
  for (const double size : {1e4, 1e15, 1e30}) {
    ReducedInputs inputs = ReducedInputs(7, {1, 1, 50}, 200, 1, 8).as(Dtype::bf16);
    inputs.q = convert(testing::filled({1, 1, 50, 1}, size), Dtype::bf16);
    const Outcome outcome = inputs.attend(reduced());
    const Tensor exact = reference::attention(inputs.q, inputs.k, inputs.v).out;
    EXPECT_LE(testing::difference(outcome.out, exact), 0.02 * testing::largest(inputs.v));
  }
}

// Sequences that share all of their pages, one of them a single query between the others: what a thread keeps of the
// keys for the next sequence is not what the other precision kept.
TEST_P(AttentionReduced, PrecisionsInTurnsOverTheSamePages) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Random random(18);
    const Tensor q = testing::normal(random, {79, 1, 32}, dtype), k = testing::normal(random, {1, 200, 1, 32}, dtype);
    const Tensor offsets = Tensor::of<std::int32_t>({4}, {0, 39, 40, 79}), own = Tensor::of<std::int32_t>({2}, {0, 39});
    const Tensor page = Tensor::zeros({1, 1}, Dtype::i32);
    const auto maxima = [&](const TensorView& queries, const TensorView& of, std::int64_t batch) {
      Tensor maximum = testing::filled({queries.size(0), 1}, 7);
      const AttentionOptions options{.mask = Mask::window(-1, 100),
                                     .precision = Precision::reduced,
                                     .offsets_query = of,
                                     .block_table = page.view().broadcast_to({batch, 1}),
                                     .threads = 1};
      attention(queries, k, k, options, {.row_maximum = maximum});
      return maximum;
    };
    const Tensor all = maxima(q, offsets, 3);
    for (const std::int64_t first : {0, 40}) {
      const Tensor alone = maxima(q.view().slice(0, first, first + 39), own, 1);
      EXPECT_TRUE(testing::same_bits(all.view().slice(0, first, first + 39), alone)) << first;
    }
  }
}

QKV_ON_EACH_TARGET(AttentionReducedFallback);

TEST_P(AttentionReducedFallback, IsExactWhereThereIsNoKernel) {
  const auto expect_exact = [](const ReducedInputs& inputs, const AttentionOptions& options,
                               const std::string& reason) {
    SCOPED_TRACE(reason);
    expect_same(inputs.attend(reduced(options)), inputs.attend(options));
    const AttentionPlan planned = plan(inputs.q, inputs.k, inputs.v, reduced(options));
    EXPECT_EQ(planned.precision, Precision::exact);
    EXPECT_TRUE(std::any_of(planned.remarks.begin(), planned.remarks.end(), [&](const std::string& remark) {
      return remark.find("precision reduced") == 0 && remark.find(reason) != std::string::npos;
    }));
  };
  const ReducedInputs inputs(11, {1, 2, 40}, 50, 16, 16);
  if (!has_reduced_precision()) {
    expect_exact(inputs, {}, "target " + GetParam() + " has no fused multiply-add");
    return;
  }
  EXPECT_EQ(plan(inputs.q, inputs.k, inputs.v, reduced()).precision, Precision::reduced);
  EXPECT_EQ(plan(inputs.q, inputs.k, inputs.v).precision, Precision::exact);
  expect_exact(inputs.as(Dtype::f64), {}, "f64");
  expect_exact(ReducedInputs(12, {1, 2, 1}, 50, 16, 16), {}, "single queries");
  expect_exact(ReducedInputs(15, {1, 1, 3}, 5, 8, 513), {}, "sizes above 512");
  Random random(13);
  const Tensor w_query = testing::normal(random, {8, 16}), w_key = testing::normal(random, {8, 16}),
               of_hidden = testing::normal(random, {8});
  expect_exact(inputs, {.score = Score::additive(w_query, w_key, of_hidden)}, "score");
}

}  // namespace
}  // namespace qkv
