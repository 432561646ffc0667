// Exact attention over 16 bits on targets that multiply in their own way, in pairs (AVX512-BF16) or tiles (AMX): the
// sums that their documentation gives, bit for bit, by the instructions and by what emulates them on other CPUs; and
// outputs as exact as those of f32.
#include "attention/attention_testing.h"
#include "attention/call/attention_call.h"
#include "attention/forward/reduced_expectation.h"
#include "simd/pair_emulation.h"
#include "simd/scratch.h"
#include "simd/tile_emulation.h"

// One of the targets with a fused multiply-add: each takes half a minute and half a gigabyte.
#define QKV_ONLY_TARGET (HWY_AVX3 | HWY_NEON)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/attention_products_test.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/paired_keys-inl.h"
#endif
#if HWY_TARGET == HWY_AVX3
#include "attention/tile/tiled_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
template <class Product>
void attend_emulated(const AttentionTask& task) {
  using Blocks = ForwardBlocks<float, Product>;
  Scratch scratch;
  const ScratchRoom room = scratch.get(Blocks::plan(task).scratch_bytes);
  Blocks(task, room).run(0, task.q_len, {}, {});
}

void attend_by_emulated_pairs(const AttentionTask& task) {
  attend_emulated<PairedKeysProduct<MultiplyPairsInF32>>(task);
}
#else
void attend_by_emulated_pairs(const AttentionTask&) {}
#endif

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

void attend_by_emulated_tiles(const AttentionTask& task) {
  task.precision == Precision::reduced ? attend_emulated<ReducedTiledProduct<EmulatedTiles>>(task)
                                       : attend_emulated<TiledProduct<EmulatedTiles>>(task);
}
#else
void attend_by_emulated_tiles(const AttentionTask&) {}
#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv {
namespace {

HWY_EXPORT(attend_by_emulated_pairs);
HWY_EXPORT(attend_by_emulated_tiles);

using testing::filled;
using testing::has_target;
using testing::kInfinity;
using testing::kNan;
using testing::Outcome;
using Row = std::vector<float>;

struct Inputs {
  // Matrices [heads, length, size].
  Inputs(std::uint64_t seed, Dtype dtype, Dims lengths, std::int64_t size, std::int64_t value_dim) {
    Random random(seed);
    q = testing::normal(random, {lengths[0], lengths[1], size}, dtype);
    k = testing::normal(random, {lengths[0], lengths[2], size}, dtype);
    v = testing::normal(random, {lengths[0], lengths[2], value_dim}, dtype);
  }

  // Subnormal numbers, those whose products may be subnormal or overflow, and what is no number: in about every tenth
  // row of one head.
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

  // With outputs of this type; by `kernel`, if there is one.
  Outcome attend(Dtype out, const AttentionOptions& options, void (*kernel)(const AttentionTask&) = nullptr) const {
    const Dims rows = {q.size(0), q.size(1)}, all = {rows[0], rows[1], k.size(1)};
    Outcome outcome{.out = filled({rows[0], rows[1], v.size(2)}, kNan, out),
                    .log_sum_exp = filled(rows, kNan),
                    .weights = filled(all, kNan),
                    .logits = filled(all, kNan)};
    const AttentionExtras extras{
        .log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits};
    if (kernel == nullptr) {
      attention(q, k, v, outcome.out.view(), options, extras);
      return outcome;
    }
    const AttentionCall call(q, k, v, options, outcome.out, extras);
    for (std::int64_t h = 0; h < q.size(0); ++h) kernel(call.task(0, h));
    return outcome;
  }

  Tensor q, k, v;
};

// Neighbours in pairs, the second of them first, each product added with one rounding.
float paired(const Row& q, const Row& k, Dtype) {
  float sum = 0;
  for (std::size_t i = 0; i < q.size(); i += 2) {
    if (i + 1 < q.size()) sum = std::fma(q[i + 1], k[i + 1], sum);
    sum = std::fma(q[i], k[i], sum);
  }
  return sum;
}

// Of a single query: each lane of 16 adds up every 16th pair, then the upper half of lanes is added to the lower one.
float paired_in_lanes(const Row& q, const Row& k, Dtype) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < q.size(); i += 2) {
    float& sum = lanes[i / 2 % 16];
    if (i + 1 < q.size()) sum = std::fma(q[i + 1], k[i + 1], sum);
    sum = std::fma(q[i], k[i], sum);
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// A number is one bf16, or the nearest one and the nearest to what that leaves.
float piece_of(float x, int piece) {
  const auto first = static_cast<float>(BFloat16(x));
  return piece == 0 ? first : static_cast<float>(BFloat16(x - first));
}

// 32 numbers at a time: the even products by themselves and the odd ones, then both together; of f16, pieces of the
// second kind first. Other than ordinary numbers: one product after the other.
float tiled(const Row& q, const Row& k, Dtype dtype) {
  const auto ordinary = [&](float x) {
    const float size = std::abs(x);
    return dtype == Dtype::f16 ? size < kInfinity : x == 0 || (size >= 0x1p-55f && size < 0x1p40f);
  };
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

std::vector<Row> rows_of(const TensorView& tensor) {
  const std::vector<double> all = testing::values(tensor);
  std::vector<Row> rows;
  for (auto at = all.begin(); at != all.end(); at += tensor.size(2)) rows.emplace_back(at, at + tensor.size(2));
  return rows;
}

// Of all queries with all keys of their head.
Row products_of(const Inputs& inputs, float (*dot)(const Row&, const Row&, Dtype)) {
  const std::int64_t q_len = inputs.q.size(1), k_len = inputs.k.size(1);
  const std::vector<Row> keys = rows_of(inputs.k), queries = rows_of(inputs.q);
  Row products;
  for (std::int64_t row = 0; row < std::ssize(queries); ++row) {
    for (std::int64_t key = row / q_len * k_len; key < (row / q_len + 1) * k_len; ++key) {
      products.push_back(
          dot(queries[static_cast<std::size_t>(row)], keys[static_cast<std::size_t>(key)], inputs.q.dtype()));
    }
  }
  return products;
}

// With a scale of 1 and every key visible.
void expect_products(const Tensor& logits, const Row& wanted) {
  ASSERT_EQ(logits.element_count(), std::ssize(wanted));
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    const float got = logits.data<float>()[at];
    if (std::isnan(wanted[at]) && std::isnan(got)) continue;
    ASSERT_EQ(got, wanted[at]) << "product " << at;
  }
}

struct Product {
  const char* target;  // whose instructions multiply so
  std::vector<Dtype> dtypes;
  float (*dot)(const Row&, const Row&, Dtype);
  void (*emulated)(const AttentionTask&);
};

const Product kProducts[] = {{"avx512-bf16",
                              {Dtype::bf16},
                              paired,
                              [](const AttentionTask& task) { HWY_DYNAMIC_DISPATCH(attend_by_emulated_pairs)(task); }},
                             {"amx", {Dtype::bf16, Dtype::f16}, tiled, [](const AttentionTask& task) {
                                HWY_DYNAMIC_DISPATCH(attend_by_emulated_tiles)(task);
                              }}};

class AttentionProducts : public ::testing::TestWithParam<Product> {
 protected:
  void TearDown() override { select_target(""); }
  bool select_own() const { return select(GetParam().target); }
  // By its instructions, and by what emulates them, as far as this CPU can.
  template <class Expect>
  void in_each_way(const Expect& expect) const {
    const bool is_own = select_own();
    if (is_own) expect(nullptr);
    const bool is_emulated = select("avx512") || (std::string(GetParam().target) == "avx512-bf16" && select("neon"));
    if (is_emulated) expect(GetParam().emulated);
    if (!is_own && !is_emulated) GTEST_SKIP() << "neither here";
  }

 private:
  static bool select(const char* target) {
    if (has_target(target)) select_target(target);
    return has_target(target);
  }
};
INSTANTIATE_TEST_SUITE_P(Of, AttentionProducts, ::testing::ValuesIn(kProducts),
                         [](const ::testing::TestParamInfo<Product>& product) {
                           return product.param.dtypes.size() == 1 ? "AttentionPairs" : "AttentionTiles";
                         });

TEST_P(AttentionProducts, LogitsAreTheirSums) {
  for (const Dtype dtype : GetParam().dtypes) {
    for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 100}) {
      for (const bool special : {false, true}) {
        Inputs inputs(static_cast<std::uint64_t>(size), dtype, {1, 51, 131}, size, 3);
        if (special) inputs.scatter(static_cast<std::uint64_t>(size));
        const Row wanted = products_of(inputs, GetParam().dot);
        in_each_way([&](void (*kernel)(const AttentionTask&)) {
          SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << size << special);
          expect_products(inputs.attend(dtype, {.scale = 1, .threads = 1}, kernel).logits, wanted);
        });
      }
    }
  }
}

const AttentionOptions kOptions[] = {{.threads = 1},
                                     {.mask = Mask::causal(Align::bottom_right), .scale = -0.3, .threads = 1},
                                     {.mask = Mask::window(40, 3), .soft_cap = 4, .threads = 1}};

// That the selected target gives the bits of what emulates its products, with numbers of every kind. NaN have signs of
// no meaning.
void expect_bits_of_emulation(const std::vector<Dtype>& dtypes, Precision precision, bool into_own,
                              void (*emulated)(const AttentionTask&)) {
  for (const Dtype dtype : dtypes) {
    for (const std::int64_t size : {1, 17, 32, 33, 100}) {
      for (const bool special : {false, true}) {
        Inputs inputs(7, dtype, {2, 50, size == 17 ? 1100 : 150}, size, 41);
        if (special) inputs.scatter(8);
        for (const Dtype out : into_own ? std::vector{dtype, Dtype::f32} : std::vector{Dtype::f32}) {
          for (AttentionOptions options : kOptions) {
            SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << size << " " << name_of(out) << special);
            options.precision = precision;
            const Outcome got = inputs.attend(out, options), wanted = inputs.attend(out, options, emulated);
            for (const Tensor Outcome::* part :
                 {&Outcome::out, &Outcome::logits, &Outcome::log_sum_exp, &Outcome::weights}) {
              EXPECT_EQ(testing::difference(got.*part, wanted.*part), 0);
            }
          }
        }
      }
    }
  }
}

// All that comes after the products is the same code.
TEST_P(AttentionProducts, InstructionsGiveTheBitsOfTheirEmulation) {
  if (!select_own()) GTEST_SKIP() << "no " << GetParam().target << " here";
  expect_bits_of_emulation(GetParam().dtypes, Precision::exact, /*into_own=*/true, GetParam().emulated);
}

// By fused multiply-adds as by tiles.
TEST(AttentionReducedTiles, VectorsGiveTheBitsOfTheirEmulation) {
  if (!has_target("avx512")) GTEST_SKIP() << "no AVX-512 here";
  select_target("avx512");
  expect_bits_of_emulation({Dtype::f32, Dtype::bf16, Dtype::f16}, Precision::reduced, /*into_own=*/false,
                           kProducts[1].emulated);
  select_target("");
}

// Sums are the tiles' accumulators, which would count subnormal ones as 0: the fourth query alone sees keys of the
// second block, and the others keep what they have of the first.
TEST(AttentionTiles, KeepSubnormalSums) {
  if (!has_target("avx512")) GTEST_SKIP() << "no AVX-512 here";
  select_target("avx512");
  Inputs inputs(1, Dtype::bf16, {1, 4, 129}, 1, 5);
  inputs.q = filled({1, 4, 1}, 1, Dtype::bf16);
  inputs.k = filled({1, 129, 1}, 0, Dtype::bf16);
  inputs.v = filled({1, 129, 5}, 0, Dtype::bf16);
  testing::put(inputs.k, {0, 0, 0}, 200);
  for (std::int64_t dim = 0; dim < 5; ++dim) testing::put(inputs.v, {0, 0, dim}, 9e-39);
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right), .scale = 1, .threads = 1};
  const Tensor out = inputs.attend(Dtype::f32, options, kProducts[1].emulated).out;
  for (const double x : testing::values(out)) EXPECT_EQ(x, static_cast<float>(BFloat16(9e-39f)));
  select_target("");
}

// The weights' pieces of tiles leave 2^-17 of a weight where the output has 16 bits, 2^-24 where it is f32.
TEST_P(AttentionProducts, OutputsAreExact) {
  for (const Dtype dtype : GetParam().dtypes) {
    const Inputs inputs(9, dtype, {2, 40, 200}, 48, 70);
    const Tensor sizes = testing::absolute(inputs.v);
    for (const AttentionOptions& options : kOptions) {
      const std::vector<double> exact =
          testing::values(reference::attention(inputs.q, inputs.k, inputs.v, options).out);
      const std::vector<double> spread = testing::values(reference::attention(inputs.q, inputs.k, sizes, options).out);
      in_each_way([&](void (*kernel)(const AttentionTask&)) {
        for (const Dtype out : {dtype, Dtype::f32}) {
          SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << name_of(out));
          const std::vector<double> got = testing::values(inputs.attend(out, options, kernel).out);
          const double pieces = out == Dtype::f32 ? 0 : 0x1p-17;
          for (std::size_t at = 0; at < got.size(); ++at) {
            const double bound = (pieces + 2e-6) * spread[at] + testing::rounding(out) * std::abs(exact[at]) + 0x1p-25;
            ASSERT_NEAR(got[at], exact[at], bound) << at;
          }
        }
      });
    }
  }
}

TEST(AttentionPairs, LogitsOfSingleQueriesAreSumsOfPairs) {
  if (!has_target("avx512-bf16")) GTEST_SKIP() << "this CPU does not multiply pairs";
  select_target("avx512-bf16");
  for (const std::int64_t size : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 65, 100}) {
    for (const std::int64_t group : {1, 2, 4, 5}) {
      for (const bool special : {false, true}) {
        SCOPED_TRACE(::testing::Message() << size << ", heads " << group << (special ? ", special numbers" : ""));
        Inputs inputs(static_cast<std::uint64_t>(size), Dtype::bf16, {1, group, 1050}, size, 9);
        if (special) inputs.scatter(static_cast<std::uint64_t>(size));
        // Behind each row lies what must not be read: rows are slices of wider ones that hold NaN.
        Tensor wide = filled({1, 1050, size + 3}, kNan, Dtype::bf16);
        convert(inputs.k, wide.view().slice(2, 0, size));
        const Outcome outcome = testing::attend(inputs.q.view().transpose(0, 1), wide.view().slice(2, 0, size),
                                                inputs.v, {.scale = 1, .threads = 1});
        expect_products(outcome.logits, products_of(inputs, paired_in_lanes));
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
      const Tensor q = filled({1, 5, 6}, of_query, Dtype::bf16), k = filled({1, 20, 6}, of_key, Dtype::bf16);
      for (const double logit : testing::values(testing::attend(q, k, k, {.scale = 1}).logits)) {
        EXPECT_EQ(logit, 6 * of_query * of_key);
      }
    }
  }
  select_target("");
}

// Targets that add instructions of bf16 to those of AVX-512 have its bits where these do not multiply: of other numbers
// than of bf16, and, in tiles, of single queries and of 32 bits or more.
TEST_P(AttentionProducts, OthersHaveTheBitsOfAvx512) {
  if (!select_own()) GTEST_SKIP() << "no " << GetParam().target << " here";
  Random random(6);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t q_len : {1, 2, 130}) {
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", queries " << q_len);
      const Tensor q = testing::normal(random, {2, q_len, 48}, dtype),
                   k = testing::normal(random, {2, 1100, 48}, dtype);
      select_target("avx512");
      const Outcome vectors = testing::attend(q, k, k);
      select_target(GetParam().target);
      const Outcome own = testing::attend(q, k, k);
      const std::vector<Dtype>& dtypes = GetParam().dtypes;
      const bool is_own = std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
      if (is_own && (q_len > 1 || dtypes.size() == 1)) {
        EXPECT_FALSE(testing::same_bits(own.logits, vectors.logits));
      } else {
        expect_same(own, vectors);
      }
    }
  }
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
