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

constexpr int kSide = 16;  // rows, and words of a row

std::vector<float> draw(Random& random, std::size_t count) {
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(random.normal());
  return numbers;
}

// Words of two neighbouring bf16, and the numbers they hold.
struct Pairs {
  Pairs(Random& random, std::size_t count) : words(count), numbers(2 * count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      for (std::size_t half = 0; half < 2; ++half) {
        const BFloat16 number(static_cast<float>(random.normal()));
        numbers[2 * i + half] = static_cast<float>(number);
        word |= std::uint32_t{number.bits} << (16 * half);
      }
      words[i] = std::bit_cast<float>(word);
    }
  }
  std::vector<float> words, numbers;
};

TEST(AmxTiles, AddUpEvenAndOddProductsApart) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  Random random(3);
  constexpr int kStep = 3 * kSide;  // rows may lie apart
  const Pairs left(random, kSide * kSide), right(random, kSide * kStep);
  const std::vector<float> before = draw(random, kSide * kSide);
  std::vector<float> sums = before;
  {
    const TileSession session;
    load_tile<2>(sums.data(), kSide);
    load_tile<5>(left.words.data(), kSide);
    load_tile<7>(right.words.data(), kStep);
    multiply_tiles<2, 5, 7>();
    store_tile<2>(sums.data(), kSide);
  }
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t j = 0; j < kSide; ++j) {
      float even = 0, odd = 0;
      for (std::size_t w = 0; w < kSide; ++w) {
        const float *of_left = &left.numbers[2 * (i * kSide + w)], *of_right = &right.numbers[2 * (w * kStep + j)];
        even = std::fma(of_left[0], of_right[0], even);
        odd = std::fma(of_left[1], of_right[1], odd);
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

// Of pairs of all kinds: subnormal, huge, infinite, no number.
TEST(AmxTiles, HaveTheBitsOfTheirEmulation) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  using Emulated = testing::EmulatedTiles;
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> operands[3];
    for (std::vector<float>& words : operands) {
      words.resize(kSide * kSide);
      for (float& word : words) {
        const bool any = round % 2 == 0 && random.below(50) == 0;
        const auto number = [&] {
          if (any) return static_cast<std::uint32_t>(random.below(0x10000));
          return std::uint32_t{BFloat16(static_cast<float>(std::ldexp(random.normal(), round / 2 - 63))).bits};
        };
        word = std::bit_cast<float>(number() << 16 | number());
      }
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
    for (std::size_t i = 0; i < kSide * kSide; ++i) {
      if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i])) << round << ", " << i;
    }
  }
}

TEST(AmxTiles, AreClearedAndKeptApart) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  Random random(4);
  const std::vector<float> numbers = draw(random, kSide * kSide);
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
