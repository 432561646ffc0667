// Exact attention over bf16 and f16 by the tiles of AMX: the sums that their documentation gives, bit for bit, by the
// instructions and by what emulates them on any AVX-512; and outputs as exact as those of f32.
#include <cmath>

#include "attention/attention_testing.h"
#include "attention/call/attention_problem.h"
#include "attention/forward/reduced_expectation.h"
#include "simd/scratch.h"
#include "simd/tile_emulation.h"

#define QKV_ONLY_TARGET HWY_AVX3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/attention_tiles_test.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/tiled_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

struct EmulatedTiles : testing::EmulatedTiles {
  static __m512i round(Vec<float> low, Vec<float> high) {
    HWY_ALIGN float lanes[32];
    hn::Store(low, Tag<float>(), lanes);
    hn::Store(high, Tag<float>(), lanes + 16);
    alignas(64) std::uint16_t halves[32];
    for (int i = 0; i < 32; ++i) halves[i] = BFloat16(testing::flushed(lanes[i])).bits;
    return _mm512_load_si512(halves);
  }
};

// The kernel without its instructions.
void attend_by_emulated_tiles(const AttentionTask& task) {
  using Blocks = ForwardBlocks<float, TiledProduct<EmulatedTiles>>;
  Scratch scratch;
  const ScratchRoom room = scratch.get(Blocks::plan(task).scratch_bytes);
  Blocks(task, room).run(0, task.q_len, {}, {});
}

#else

void attend_by_emulated_tiles(const AttentionTask&) {}

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv {
namespace {

HWY_EXPORT(attend_by_emulated_tiles);

using testing::filled;
using testing::has_target;
using testing::kInfinity;
using testing::kNan;
using testing::Outcome;
using testing::same_bits;

struct Inputs {
  // Matrices [heads, length, size].
  Inputs(std::uint64_t seed, Dtype dtype, std::int64_t q_len, std::int64_t k_len, std::int64_t size,
         std::int64_t value_dim) {
    Random random(seed);
    q = testing::normal(random, {2, q_len, size}, dtype);
    k = testing::normal(random, {2, k_len, size}, dtype);
    v = testing::normal(random, {2, k_len, value_dim}, dtype);
  }

  // Numbers that tiles would get wrong, in about every tenth row of one head.
  void scatter(std::uint64_t seed) {
    const double special[] = {0x1p-130, -0x1.02p-127, 0x1p-90, -1e-30, 0x1p45, 1e30, kInfinity, -kInfinity, kNan};
    Random random(seed);
    for (Tensor* tensor : {&q, &k, &v}) {
      for (std::int64_t row = 0; row < tensor->size(1); ++row) {
        if (random.below(10) > 0) continue;
        const auto column = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(tensor->size(2))));
        testing::put(*tensor, {0, row, column}, special[random.below(std::size(special))]);
      }
    }
  }

  // With outputs of this type.
  Outcome empty_outcome(Dtype out) const {
    const Dims rows = {q.size(0), q.size(1)}, all = {rows[0], rows[1], k.size(1)};
    return {.out = filled({rows[0], rows[1], v.size(2)}, kNan, out),
            .log_sum_exp = filled(rows, kNan),
            .weights = filled(all, kNan),
            .logits = filled(all, kNan)};
  }

  Outcome attend(Dtype out, const AttentionOptions& options) const {
    Outcome outcome = empty_outcome(out);
    attention(q, k, v, outcome.out.view(), options,
              {.log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits});
    return outcome;
  }

  Outcome attend_emulated(Dtype out, const AttentionOptions& options) const {
    AttentionProblem problem(q, k, v, options);
    Outcome outcome = empty_outcome(out);
    problem.set_outputs(outcome.out,
                        {.log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits});
    for (std::int64_t h = 0; h < q.size(0); ++h) HWY_DYNAMIC_DISPATCH(attend_by_emulated_tiles)(problem.task(0, h));
    return outcome;
  }

  Tensor q, k, v;
};

using Attend = std::function<Outcome(const Inputs&, Dtype, const AttentionOptions&)>;

Outcome by_instructions(const Inputs& inputs, Dtype out, const AttentionOptions& options) {
  return inputs.attend(out, options);
}
Outcome by_emulation(const Inputs& inputs, Dtype out, const AttentionOptions& options) {
  return inputs.attend_emulated(out, options);
}

// A number is one bf16, or the nearest one and the nearest to what that leaves.
float piece_of(float x, int piece) {
  const auto first = static_cast<float>(BFloat16(x));
  return piece == 0 ? first : static_cast<float>(BFloat16(x - first));
}

bool is_ordinary(float x, Dtype dtype) {
  const float size = std::abs(x);
  return dtype == Dtype::f16 ? size < kInfinity : x == 0 || (size >= 0x1p-55f && size < 0x1p40f);
}

// 32 numbers at a time: the even products by themselves and the odd ones, then both together; of f16, pieces of the
// second kind first. Other than ordinary numbers: one product after the other.
float product(const std::vector<float>& q, const std::vector<float>& k, Dtype dtype) {
  const auto ordinary = [&](float x) { return is_ordinary(x, dtype); };
  float sum = 0;
  if (!std::all_of(q.begin(), q.end(), ordinary) || !std::all_of(k.begin(), k.end(), ordinary)) {
    for (std::size_t i = 0; i < q.size(); ++i) sum = std::fma(q[i], k[i], sum);
    return sum;
  }
  const int last = dtype == Dtype::f16 ? 1 : 0;
  for (std::size_t first = 0; first < q.size(); first += 32) {
    for (int of_key = last; of_key >= 0; --of_key) {
      for (int of_query = last; of_query >= 0; --of_query) {
        float halves[2] = {};
        for (std::size_t i = first; i < std::min(first + 32, q.size()); ++i) {
          halves[i % 2] = std::fma(piece_of(k[i], of_key), piece_of(q[i], of_query), halves[i % 2]);
        }
        sum += halves[0] + halves[1];
      }
    }
  }
  return sum;
}

std::vector<std::vector<float>> rows_of(const Tensor& tensor) {
  const std::vector<double> all = testing::values(tensor);
  const std::int64_t size = tensor.size(2), count = tensor.size(0) * tensor.size(1);
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.emplace_back(all.begin() + i * size, all.begin() + (i + 1) * size);
  return rows;
}

void expect_products(const Inputs& inputs, const Tensor& logits) {
  const std::int64_t q_len = inputs.q.size(1), k_len = inputs.k.size(1);
  const auto keys = rows_of(inputs.k), queries = rows_of(inputs.q);
  for (std::int64_t row = 0; row < 2 * q_len; ++row) {
    for (std::int64_t j = 0; j < k_len; ++j) {
      const float expected = product(queries[row], keys[row / q_len * k_len + j], inputs.q.dtype());
      const float got = logits.data<float>()[row * k_len + j];
      if (std::isnan(expected) && std::isnan(got)) continue;
      ASSERT_EQ(got, expected) << "row " << row << ", key " << j;
    }
  }
}

void expect_sums_of_tiles(const Attend& attend) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const std::int64_t size : {1, 2, 17, 31, 32, 33, 64, 100}) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << size);
      Inputs inputs(static_cast<std::uint64_t>(size), dtype, 18, 70, size, 3);
      const AttentionOptions options{.scale = 1, .threads = 1};
      expect_products(inputs, attend(inputs, dtype, options).logits);
      inputs.scatter(static_cast<std::uint64_t>(size));
      expect_products(inputs, attend(inputs, dtype, options).logits);
    }
  }
}

TEST(AttentionTiles, LogitsAreSumsOfTiles) {
  if (!has_target("amx")) GTEST_SKIP() << "no tiles here";
  select_target("amx");
  expect_sums_of_tiles(by_instructions);
  select_target("");
}

TEST(AttentionTiles, LogitsOfTheEmulationToo) {
  if (!has_target("avx512")) GTEST_SKIP() << "no AVX-512 here";
  select_target("avx512");
  expect_sums_of_tiles(by_emulation);
  select_target("");
}

const AttentionOptions kOptions[] = {{.threads = 1},
                                     {.mask = Mask::causal(Align::bottom_right), .scale = -0.3, .threads = 1},
                                     {.mask = Mask::window(40, 3), .soft_cap = 4, .threads = 1}};

void expect_bits_of_emulation(const Inputs& inputs, Dtype out, const AttentionOptions& options) {
  const Outcome got = inputs.attend(out, options), emulated = inputs.attend_emulated(out, options);
  EXPECT_EQ(testing::difference(got.out, emulated.out), 0);  // NaN have signs of no meaning
  EXPECT_EQ(testing::difference(got.logits, emulated.logits), 0);
  EXPECT_EQ(testing::difference(got.log_sum_exp, emulated.log_sum_exp), 0);
  EXPECT_EQ(testing::difference(got.weights, emulated.weights), 0);
}

TEST(AttentionTiles, TheInstructionsGiveTheBitsOfTheirEmulation) {
  if (!has_target("amx")) GTEST_SKIP() << "no tiles here";
  select_target("amx");
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const bool special : {false, true}) {
      Inputs inputs(7, dtype, 40, 150, 33, 41);
      if (special) inputs.scatter(8);
      for (const Dtype out : {dtype, Dtype::f32}) {
        for (const AttentionOptions& options : kOptions) {
          SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << name_of(out) << special);
          expect_bits_of_emulation(inputs, out, options);
        }
      }
    }
    expect_bits_of_emulation(Inputs(8, dtype, 5, 1100, 16, 16), dtype, kOptions[0]);
  }
  select_target("");
}

// The weights' pieces leave 2^-17 of a weight where the output has 16 bits, 2^-24 where it is f32.
void expect_exact_outputs(const Attend& attend) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const Inputs inputs(9, dtype, 40, 200, 48, 70);
    const Tensor sizes = testing::absolute(inputs.v);
    for (const Dtype out : {dtype, Dtype::f32}) {
      for (const AttentionOptions& options : kOptions) {
        SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << name_of(out));
        const std::vector<double> got = testing::values(attend(inputs, out, options).out);
        const std::vector<double> exact =
            testing::values(reference::attention(inputs.q, inputs.k, inputs.v, options).out);
        const std::vector<double> spread =
            testing::values(reference::attention(inputs.q, inputs.k, sizes, options).out);
        const double rounding = out == Dtype::bf16 ? 0x1p-8 : out == Dtype::f16 ? 0x1p-11 : 0;
        const double pieces = out == Dtype::f32 ? 0 : 0x1p-17;
        for (std::size_t at = 0; at < got.size(); ++at) {
          const double bound = (pieces + 2e-6) * spread[at] + rounding * std::abs(exact[at]) + 0x1p-25;
          ASSERT_NEAR(got[at], exact[at], bound) << at;
        }
      }
    }
  }
}

TEST(AttentionTiles, OutputsAreExact) {
  if (!has_target("amx")) GTEST_SKIP() << "no tiles here";
  select_target("amx");
  expect_exact_outputs(by_instructions);
  select_target("");
}

TEST(AttentionTiles, OutputsOfTheEmulationToo) {
  if (!has_target("avx512")) GTEST_SKIP() << "no AVX-512 here";
  select_target("avx512");
  expect_exact_outputs(by_emulation);
  select_target("");
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
