// Exact attention over bf16 where AVX512-BF16 multiplies queries by keys: the sums that its documentation gives, bit
// for bit, by the instruction and by what emulates it on any CPU; and rows that depend on nothing but what they
// see.
#include <bit>
#include <cmath>

#include "attention/attention_testing.h"
#include "attention/call/attention_problem.h"
#include "simd/pair_emulation.h"
#include "simd/scratch.h"

#define QKV_ONLY_TARGET (HWY_AVX2 | HWY_AVX3 | HWY_NEON)  // those with a fused multiply-add
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/attention_pairs_test.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/paired_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The kernel of bf16 without its instruction.
void attend_emulated(const AttentionTask& task) {
  using Blocks = ForwardBlocks<float, PairedKeysProduct<MultiplyPairsInF32>>;
  Scratch scratch;
  const ScratchRoom room = scratch.get(Blocks::plan(task).scratch_bytes);
  Blocks(task, room).run(0, task.q_len, {}, {});
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv {
namespace {

HWY_EXPORT(attend_emulated);

using testing::filled;
using testing::has_target;
using testing::kInfinity;
using testing::kNan;
using testing::Outcome;
using testing::same_bits;

// Subnormal numbers; those whose products may be subnormal or overflow; and what is no number.
const double kSpecial[] = {0x1p-130, -0x1.02p-127, 0x1p-60, -1e-30, 0x1p45, 1e30, kInfinity, -kInfinity, kNan};

struct Inputs {
  // Matrices [heads, length, size].
  Inputs(std::uint64_t seed, std::int64_t heads, std::int64_t q_len, std::int64_t k_len, std::int64_t size,
         std::int64_t value_dim = 9) {
    Random random(seed);
    q = testing::normal(random, {heads, q_len, size}, Dtype::bf16);
    k = testing::normal(random, {heads, k_len, size}, Dtype::bf16);
    v = testing::normal(random, {heads, k_len, value_dim}, Dtype::bf16);
  }
  Outcome attend(const AttentionOptions& options = {}) const { return testing::attend(q, k, v, options); }
  Tensor q, k, v;
};

Outcome attend_emulated(const Inputs& inputs, const AttentionOptions& options) {
  AttentionProblem problem(inputs.q, inputs.k, inputs.v, options);
  const Dims rows = {inputs.q.size(0), inputs.q.size(1)}, all = {rows[0], rows[1], inputs.k.size(1)};
  Outcome outcome{.out = filled({rows[0], rows[1], inputs.v.size(2)}, kNan, Dtype::bf16),
                  .log_sum_exp = filled(rows, kNan),
                  .weights = filled(all, kNan),
                  .logits = filled(all, kNan)};
  problem.set_outputs(outcome.out,
                      {.log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits});
  for (std::int64_t h = 0; h < rows[0]; ++h) HWY_DYNAMIC_DISPATCH(attend_emulated)(problem.task(0, h));
  return outcome;
}

// Neighbours in pairs, the second of them first, each product added with one rounding.
float product(const BFloat16* q, const BFloat16* k, std::int64_t size) {
  float sum = 0;
  for (std::int64_t i = 0; i < size; i += 2) {
    if (i + 1 < size) sum = std::fma(static_cast<float>(q[i + 1]), static_cast<float>(k[i + 1]), sum);
    sum = std::fma(static_cast<float>(q[i]), static_cast<float>(k[i]), sum);
  }
  return sum;
}

// With a scale of 1 and every key visible.
void expect_products(const Inputs& inputs, const Tensor& logits) {
  const std::int64_t q_len = inputs.q.size(1), k_len = inputs.k.size(1), size = inputs.q.size(2);
  const auto* q = inputs.q.data<BFloat16>();
  const auto* k = inputs.k.data<BFloat16>();
  for (std::int64_t at = 0; at < logits.element_count(); ++at) {
    const std::int64_t row = at / k_len, h = row / q_len, j = at % k_len;
    const float expected = product(q + row * size, k + (h * k_len + j) * size, size), got = logits.data<float>()[at];
    if (std::isnan(expected) && std::isnan(got)) continue;
    ASSERT_EQ(got, expected) << "row " << row << ", key " << j;
  }
}

constexpr std::int64_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 65, 100};

// Elements of every kind in about every tenth row, and one ordinary head.
void scatter(Inputs& inputs, std::uint64_t seed) {
  Random random(seed);
  for (Tensor* tensor : {&inputs.q, &inputs.k}) {
    for (std::int64_t row = 0; row < tensor->size(1); ++row) {
      if (random.below(10) > 0) continue;
      const auto column = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(tensor->size(2))));
      testing::put(*tensor, {0, row, column}, kSpecial[random.below(std::size(kSpecial))]);
    }
  }
}

void expect_sums_of_pairs(const std::function<Outcome(const Inputs&, const AttentionOptions&)>& attend) {
  for (const std::int64_t size : kSizes) {
    SCOPED_TRACE(size);
    Inputs inputs(static_cast<std::uint64_t>(size), 2, 53, 131, size);
    const AttentionOptions options{.scale = 1, .threads = 1};
    expect_products(inputs, attend(inputs, options).logits);
    scatter(inputs, static_cast<std::uint64_t>(size));
    expect_products(inputs, attend(inputs, options).logits);
  }
}

TEST(AttentionPairs, LogitsAreSumsOfPairs) {
  if (!has_target("avx512-bf16")) GTEST_SKIP() << "this CPU does not multiply pairs";
  select_target("avx512-bf16");
  expect_sums_of_pairs([](const Inputs& inputs, const AttentionOptions& options) { return inputs.attend(options); });
  select_target("");
}

TEST(AttentionPairs, LogitsOfTheEmulationToo) {
  bool has_run = false;
  for (const char* target : {"avx512", "avx2", "neon"}) {
    if (!has_target(target)) continue;
    SCOPED_TRACE(target);
    select_target(target);
    expect_sums_of_pairs(attend_emulated);
    has_run = true;
  }
  select_target("");
  if (!has_run) GTEST_SKIP() << "no fused multiply-add";
}

// All that comes after the products is the same code: on AVX-512 whole results are.
TEST(AttentionPairs, TheInstructionGivesTheBitsOfItsEmulation) {
  if (!has_target("avx512-bf16")) GTEST_SKIP() << "this CPU does not multiply pairs";
  select_target("avx512-bf16");
  for (const std::int64_t size : kSizes) {
    for (const bool special : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size << (special ? ", special numbers" : ""));
      Inputs inputs(static_cast<std::uint64_t>(size), 2, 70, 1100, size, 37);
      if (special) scatter(inputs, static_cast<std::uint64_t>(size));
      for (const AttentionOptions& options : {AttentionOptions{.threads = 1},
                                              {.mask = Mask::causal(Align::bottom_right), .scale = -0.3, .threads = 1},
                                              {.mask = Mask::window(40, 3), .soft_cap = 4, .threads = 1}}) {
        const Outcome by_instruction = inputs.attend(options), emulated = attend_emulated(inputs, options);
        EXPECT_EQ(testing::difference(by_instruction.out, emulated.out), 0);  // NaN have signs of no meaning
        EXPECT_EQ(testing::difference(by_instruction.logits, emulated.logits), 0);
        EXPECT_EQ(testing::difference(by_instruction.log_sum_exp, emulated.log_sum_exp), 0);
        EXPECT_EQ(testing::difference(by_instruction.weights, emulated.weights), 0);
      }
    }
  }
  select_target("");
}

// Of a single query: each lane of 16 adds up every 16th pair, then lanes are added, two and two.
float single_product(const BFloat16* q, const BFloat16* k, std::int64_t size) {
  float lanes[16] = {};
  for (std::int64_t i = 0; i < size; i += 2) {
    float& sum = lanes[i / 2 % 16];
    if (i + 1 < size) sum = std::fma(static_cast<float>(q[i + 1]), static_cast<float>(k[i + 1]), sum);
    sum = std::fma(static_cast<float>(q[i]), static_cast<float>(k[i]), sum);
  }
  float fours[4];
  for (int b = 0; b < 4; ++b) {
    const float* of = lanes + 4 * b;
    fours[b] = (of[0] + of[2]) + (of[1] + of[3]);
  }
  return (fours[0] + fours[2]) + (fours[1] + fours[3]);
}

TEST(AttentionPairs, LogitsOfSingleQueriesAreSumsOfPairs) {
  if (!has_target("avx512-bf16")) GTEST_SKIP() << "this CPU does not multiply pairs";
  select_target("avx512-bf16");
  for (const std::int64_t size : kSizes) {
    for (const std::int64_t group : {1, 2, 4, 5}) {
      for (const bool special : {false, true}) {
        SCOPED_TRACE(::testing::Message() << size << ", heads " << group << (special ? ", special numbers" : ""));
        Inputs inputs(static_cast<std::uint64_t>(size), 1, group, 1050, size);
        if (special) scatter(inputs, static_cast<std::uint64_t>(size));
        // Behind each row lies what must not be read: rows are slices of wider ones that hold NaN.
        Tensor wide = filled({1, 1050, size + 3}, kNan, Dtype::bf16);
        convert(inputs.k, wide.view().slice(2, 0, size));
        const Outcome outcome = testing::attend(inputs.q.view().transpose(0, 1), wide.view().slice(2, 0, size),
                                                inputs.v, {.scale = 1, .threads = 1});
        const auto* q = inputs.q.data<BFloat16>();
        const auto* k = inputs.k.data<BFloat16>();
        for (std::int64_t at = 0; at < outcome.logits.element_count(); ++at) {
          const float expected = single_product(q + at / 1050 * size, k + at % 1050 * size, size);
          const float got = outcome.logits.data<float>()[at];
          if (std::isnan(expected) && std::isnan(got)) continue;
          ASSERT_EQ(got, expected) << "head " << at / 1050 << ", key " << at % 1050;
        }
      }
    }
  }
  select_target("");
}

// Tiny numbers count: flushed to 0, as the instruction does, each of these logits would be 0.
TEST(AttentionPairs, SubnormalNumbersCount) {
  for (const std::string& target : testing::usable_targets()) {
    SCOPED_TRACE(target);
    select_target(target);
    for (const auto& [of_query, of_key] : {std::pair(0x1p-130, 0x1p120), {0x1p100, -0x1.8p-128}, {0x1p-70, 0x1p-60}}) {
      Inputs inputs(1, 1, 5, 20, 6);
      inputs.q = filled({1, 5, 6}, of_query, Dtype::bf16);
      inputs.k = filled({1, 20, 6}, of_key, Dtype::bf16);
      for (const double logit : testing::values(inputs.attend({.scale = 1}).logits)) {
        EXPECT_EQ(logit, 6 * of_query * of_key);
      }
    }
  }
  select_target("");
}

QKV_ON_EACH_TARGET(AttentionSpecialNumbers);

// One element in another query, in a key or value that a length or the causal mask hides, or in another sequence, of
// two sequences with two heads of 60 queries and 200 keys: rows that do not see it keep their bits.
TEST_P(AttentionSpecialNumbers, ReachNoRowThatDoesNotSeeThem) {
  constexpr std::int64_t kQueries = 60, kKeys = 200, kSize = 34, kValues = 20;
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {190, 200});
  const AttentionOptions options{.mask = Mask::causal(Align::top_left) & Mask::lengths(lengths)};
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    Random random(5);
    const Tensor q = testing::normal(random, {2, 2, kQueries, kSize}, dtype);
    const Tensor k = testing::normal(random, {2, 2, kKeys, kSize}, dtype);
    const Tensor v = testing::normal(random, {2, 2, kKeys, kValues}, dtype);
    const Outcome clean = testing::attend(q, k, v, options);
    const auto expect_others_same = [&](const Outcome& outcome, std::int64_t b, std::int64_t h, std::int64_t first) {
      std::int64_t kept = 0;
      for (std::int64_t row = 0; row < 4 * kQueries; ++row) {
        const std::int64_t sequence = row / (2 * kQueries), head = row / kQueries % 2, i = row % kQueries;
        if (sequence == b && head == h && i >= first) continue;
        ++kept;
        const auto own = [&](const Tensor& of) {
          return of.view().select(0, sequence).select(0, head).slice(0, i, i + 1);
        };
        EXPECT_TRUE(same_bits(own(outcome.out), own(clean.out))) << row;
        EXPECT_TRUE(same_bits(own(outcome.log_sum_exp), own(clean.log_sum_exp))) << row;
        EXPECT_TRUE(same_bits(own(outcome.weights), own(clean.weights))) << row;
        EXPECT_TRUE(same_bits(own(outcome.logits), own(clean.logits))) << row;
      }
      EXPECT_GE(kept, 3 * kQueries);
    };
    for (const double special : kSpecial) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << special);
      const auto with = [&](const Tensor& tensor, const Dims& index) {
        Tensor changed = tensor;
        testing::put(changed, index, special);
        return changed;
      };
      // The last query of its head, so that all rows but this one are compared.
      expect_others_same(testing::attend(with(q, {1, 0, kQueries - 1, 7}), k, v, options), 1, 0, kQueries - 1);
      expect_others_same(testing::attend(q, with(k, {1, 1, 40, 33}), v, options), 1, 1, 40);
      expect_others_same(testing::attend(q, k, with(v, {1, 1, 40, 3}), options), 1, 1, 40);
      // Beyond the length of the sequence, and beyond what any query sees: all rows.
      expect_others_same(testing::attend(q, with(k, {0, 1, 195, 0}), with(v, {0, 1, 195, 0}), options), 0, 1, kQueries);
      expect_others_same(testing::attend(q, with(k, {0, 1, 63, 0}), with(v, {0, 1, 63, 0}), options), 0, 1, kQueries);
    }
  }
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
