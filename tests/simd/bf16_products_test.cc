// Products of pairs of bf16: the instruction of AVX512-BF16 as its documentation says, bit for bit, and what takes its
// place, which gives the same bits wherever it is taken.
#include "attention/attention_testing.h"
#include "simd/pair_emulation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/bf16_products_test.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/bf16_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// For a count that every vector divides.
template <class Step>
void multiply_all(const float* left, const float* right, float* sums, std::int64_t count) {
  const Tag<float> d;
  for (std::int64_t i = 0; i < count; i += kLanes<float>) {
    hn::StoreU(Step::apply(hn::LoadU(d, left + i), hn::LoadU(d, right + i), hn::LoadU(d, sums + i)), d, sums + i);
  }
}

void multiply_in_f32(const float* left, const float* right, float* sums, std::int64_t count) {
  multiply_all<MultiplyPairsInF32>(left, right, sums, count);
}

void multiply_by_instruction([[maybe_unused]] const float* left, [[maybe_unused]] const float* right,
                             [[maybe_unused]] float* sums, [[maybe_unused]] std::int64_t count) {
#if HWY_TARGET == HWY_AVX3
  multiply_all<MultiplyPairs>(left, right, sums, count);
#endif
}

bool is_ordinary(float pairs) { return is_ordinary_row(&pairs, 1); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv {
namespace {

HWY_EXPORT(multiply_in_f32);
HWY_EXPORT(multiply_by_instruction);
HWY_EXPORT(is_ordinary);

using testing::instruction;
using testing::of_pairs;

constexpr std::int64_t kCount = 1 << 16;

// Pairs whose exponents lie in a range, sums in another one.
struct Drawn {
  struct Exponents {
    std::uint32_t first, last;
  };
  Drawn(std::uint64_t seed, Exponents of_left, Exponents of_right, Exponents of_sums) {
    Random random(seed);
    for (std::int64_t i = 0; i < kCount; ++i) {
      left.push_back(pair(random, of_left));
      right.push_back(pair(random, of_right));
      sums.push_back(
          std::bit_cast<float>(half(random, of_sums) << 16 | static_cast<std::uint32_t>(random.below(0x10000))));
      if (i % 5 == 0) sums.back() = 0;
      if (i % 7 == 0) sums.back() = -of_pairs(left.back()).upper * of_pairs(right.back()).upper;
      if (i % 11 == 0) left.back() = std::bit_cast<float>(std::bit_cast<std::uint32_t>(left.back()) & 0x8000ffff);
    }
  }
  std::vector<float> left, right, sums;

 private:
  static std::uint32_t half(Random& random, Exponents exponents) {
    const auto draw = [&](std::uint32_t count) { return static_cast<std::uint32_t>(random.below(count)); };
    return draw(2) << 15 | (exponents.first + draw(exponents.last - exponents.first + 1)) << 7 | draw(128);
  }
  static float pair(Random& random, Exponents exponents) {
    return std::bit_cast<float>(half(random, exponents) << 16 | half(random, exponents));
  }
};

constexpr Drawn::Exponents kOrdinary{127 - 55, 127 + 39};

// All kinds of numbers: ordinary, small ones whose products are subnormal, subnormal ones, infinities and NaN.
const Drawn::Exponents kRanges[][3] = {{{120, 130}, {120, 130}, {115, 140}}, {kOrdinary, kOrdinary, {17, 207}},
                                       {{0, 90}, {40, 100}, {0, 30}},        {{0, 2}, {200, 254}, {0, 254}},
                                       {{0, 255}, {0, 255}, {0, 255}},       {{180, 254}, {180, 254}, {200, 254}}};

// multiply(left, right, sums, count) adds to each sum what add_pairs(left, right, sum) does.
template <class Multiply>
void expect_products(const Multiply& multiply, float (*add_pairs)(float, float, float)) {
  std::uint64_t seed = 0;
  for (const auto& [left, right, sums] : kRanges) {
    SCOPED_TRACE(++seed);
    Drawn drawn(seed, left, right, sums);
    std::vector<float> expected;
    for (std::size_t i = 0; i < drawn.sums.size(); ++i) {
      expected.push_back(add_pairs(drawn.left[i], drawn.right[i], drawn.sums[i]));
    }
    multiply(drawn.left.data(), drawn.right.data(), drawn.sums.data(), kCount);
    testing::expect_same_floats(drawn.sums, expected);
  }
}

TEST(Bf16Products, TheInstructionIsAsDocumented) {
  if (!testing::has_target("avx512-bf16")) GTEST_SKIP() << "this CPU has none";
  select_target("avx512-bf16");
  expect_products([](auto... all) { HWY_DYNAMIC_DISPATCH(multiply_by_instruction)(all...); }, instruction);
  select_target("");
}

float in_f32(float left, float right, float sum) {
  const testing::Pair a = of_pairs(left), b = of_pairs(right);
  return std::fma(a.lower, b.lower, std::fma(a.upper, b.upper, sum));
}

// Chains of sums, too: what comes out of one product goes into the next.
TEST(Bf16Products, OrdinaryPairsHaveTheSameBitsWithoutTheInstruction) {
  const Drawn drawn(1, kOrdinary, kOrdinary, {0, 0});
  float by_instruction = 0, otherwise = 0;
  for (std::size_t i = 0; i < drawn.left.size(); ++i) {
    if (i % 64 == 0) by_instruction = otherwise = 0;
    by_instruction = instruction(drawn.left[i], drawn.right[i], by_instruction);
    otherwise = in_f32(drawn.left[i], drawn.right[i], otherwise);
    ASSERT_EQ(by_instruction, otherwise) << i;
    ASSERT_EQ(std::signbit(by_instruction), std::signbit(otherwise)) << i;
    ASSERT_LT(std::abs(otherwise), testing::kInfinity);
  }
  // Neighbours that cancel: the least difference there is, and sums of the largest.
  const auto pair = [](float lower, float upper) {
    return std::bit_cast<float>(std::uint32_t{BFloat16(upper).bits} << 16 | BFloat16(lower).bits);
  };
  const float least = pair(0x1p-55f, -0x1.02p-55f), most = pair(0x1.fep39f, 0x1.fep39f);
  EXPECT_EQ(instruction(least, pair(0x1.02p-55f, 0x1p-55f), 0), 0);
  const float difference = instruction(least, pair(0x1p-55f, 0x1p-55f), 0);
  EXPECT_EQ(difference, -0x1p-117f);
  EXPECT_EQ(in_f32(least, pair(0x1p-55f, 0x1p-55f), 0), difference);
  EXPECT_EQ(in_f32(most, most, 0x1p100f), instruction(most, most, 0x1p100f));
}

QKV_ON_EACH_TARGET(Bf16ProductsInF32);

TEST_P(Bf16ProductsInF32, AddTheUpperProductFirst) {
  if (GetParam() == "sse4" || GetParam() == "portable") GTEST_SKIP() << "no fused multiply-add";
  expect_products([](auto... all) { HWY_DYNAMIC_DISPATCH(multiply_in_f32)(all...); }, in_f32);
}

TEST_P(Bf16ProductsInF32, OrdinaryNumbersAreThoseOfTheRange) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = std::abs(std::bit_cast<float>(bits << 16));
    const bool expected = x == 0 || (x >= 0x1p-55f && x < 0x1p40f);
    ASSERT_EQ(HWY_DYNAMIC_DISPATCH(is_ordinary)(std::bit_cast<float>(bits << 16 | 0x3f80)), expected) << bits;
    ASSERT_EQ(HWY_DYNAMIC_DISPATCH(is_ordinary)(std::bit_cast<float>(bits | 0x3f800000)), expected) << bits;
  }
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
