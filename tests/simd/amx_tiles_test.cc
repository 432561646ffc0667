// The product of two tiles, bit for bit as its documentation says.
#include "simd/amx_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "qkv/dtype.h"
#include "qkv/random.h"
#include "simd/tile_emulation.h"

#ifdef __x86_64__

namespace qkv {
namespace {

constexpr std::size_t kSide = 16;  // rows, and words of a row

// Words of two neighbouring bf16, of random numbers, or now and then of any kind: subnormal, huge, infinite, no number.
std::vector<float> draw_pairs(Random& random, std::size_t count, int exponent = 0, bool any_kind = false) {
  std::vector<float> words(count);
  for (float& word : words) {
    const bool any = any_kind && random.below(50) == 0;
    const auto bits = [&] {
      if (any) return static_cast<std::uint32_t>(random.below(0x10000));
      return std::uint32_t{BFloat16(static_cast<float>(std::ldexp(random.normal(), exponent))).bits};
    };
    word = std::bit_cast<float>(bits() << 16 | bits());
  }
  return words;
}

std::vector<float> draw(Random& random) {
  std::vector<float> numbers(kSide * kSide);
  for (float& x : numbers) x = static_cast<float>(random.normal());
  return numbers;
}

TEST(AmxTiles, AddUpEvenAndOddProductsApart) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  Random random(3);
  constexpr std::size_t kStep = 3 * kSide;  // rows may lie apart
  const std::vector<float> left = draw_pairs(random, kSide * kSide), right = draw_pairs(random, kSide * kStep);
  const std::vector<float> before = draw(random);
  std::vector<float> sums = before;
  {
    const TileSession session;
    load_tile<2>(sums.data(), kSide);
    load_tile<5>(left.data(), kSide);
    load_tile<7>(right.data(), kStep);
    multiply_tiles<2, 5, 7>();
    store_tile<2>(sums.data(), kSide);
  }
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t j = 0; j < kSide; ++j) {
      float even = 0, odd = 0;
      for (std::size_t w = 0; w < kSide; ++w) {
        const testing::Pair a = testing::of_pairs(left[i * kSide + w]), b = testing::of_pairs(right[w * kStep + j]);
        even = std::fma(a.lower, b.lower, even);
        odd = std::fma(a.upper, b.upper, odd);
      }
      EXPECT_EQ(sums[i * kSide + j], before[i * kSide + j] + (even + odd)) << i << ", " << j;
    }
  }
}

// Operands of fewer rows and bytes than tiles can hold; the largest products of each sign, too.
TEST(AmxTiles, AddUpProductsOfBytes) {
  if (!borrow_tiles() || !has_byte_tiles()) GTEST_SKIP() << "no tiles of bytes here";
  constexpr std::size_t kRows = 5, kDepth = 12;
  constexpr std::int64_t kLeftStep = 20, kRightStep = 3 * 4 * kSide;
  Random random(5);
  std::vector<std::uint8_t> left(kRows * kLeftStep);
  std::vector<std::int8_t> right(kDepth / 4 * kRightStep);
  for (auto& x : left) x = static_cast<std::uint8_t>(random.bits());
  for (auto& x : right) x = static_cast<std::int8_t>(random.bits());
  std::fill_n(left.begin(), kDepth, 255);
  for (std::size_t w = 0; w < kDepth / 4; ++w) {
    std::fill_n(right.data() + w * kRightStep, 4, -128);
    std::fill_n(right.data() + w * kRightStep + 4, 4, 127);
  }
  std::vector<std::int32_t> sums(kRows * kSide, 7);
  {
    const TileSession session({.row_bytes = {4 * kSide, kDepth, 4 * kSide}, .rows = {kRows, kRows, kDepth / 4}});
    load_tile<0>(sums.data(), kSide);
    load_tile<1>(left.data(), kLeftStep);
    load_tile<2>(right.data(), kRightStep);
    multiply_byte_tiles<0, 1, 2>();
    store_tile<0>(sums.data(), kSide);
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kSide; ++j) {
      std::int32_t expected = 7;
      for (std::size_t k = 0; k < kDepth; ++k) {
        expected += left[i * kLeftStep + k] * right[k / 4 * kRightStep + 4 * j + k % 4];
      }
      EXPECT_EQ(sums[i * kSide + j], expected) << i << ", " << j;
    }
  }
}

TEST(AmxTiles, HaveTheBitsOfTheirEmulation) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  using Emulated = testing::EmulatedTiles;
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> operands[3];
    for (std::vector<float>& words : operands) {
      words = draw_pairs(random, kSide * kSide, round / 2 - 63, /*any_kind=*/round % 2 == 0);
    }
    float got[kSide * kSide], expected[kSide * kSide];
    {
      const TileSession session;
      load_tile<0>(operands[0].data(), kSide);
      load_tile<1>(operands[1].data(), kSide);
      load_tile<2>(operands[2].data(), kSide);
      multiply_tiles<0, 1, 2>();
      store_tile<0>(got, kSide);
    }
    Emulated::load<0>(operands[0].data(), kSide);
    Emulated::load<1>(operands[1].data(), kSide);
    Emulated::load<2>(operands[2].data(), kSide);
    Emulated::multiply<0, 1, 2>();
    Emulated::store<0>(expected, kSide);
    testing::expect_same_floats(got, expected);
  }
}

TEST(AmxTiles, AreClearedAndKeptApart) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  Random random(4);
  const std::vector<float> numbers = draw(random);
  std::vector<float> kept(kSide * kSide), cleared = numbers;
  {
    const TileSession session;
    load_tile<0>(numbers.data(), kSide);
    load_tile<1>(numbers.data(), kSide);
    clear_tile<1>();
    store_tile<0>(kept.data(), kSide);
    store_tile<1>(cleared.data(), kSide);
  }
  EXPECT_EQ(kept, numbers);
  EXPECT_EQ(cleared, std::vector<float>(kSide * kSide));
}

}  // namespace
}  // namespace qkv

#endif  // __x86_64__
