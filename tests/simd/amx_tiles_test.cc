// The product of two tiles, bit for bit as its documentation says.
#include "simd/amx_tiles.h"

#include "qkv/dtype.h"
#include "qkv/random.h"
#include "simd/tile_emulation.h"

#ifdef __x86_64__

namespace qkv {
namespace {

constexpr std::size_t kSide = 16;  // rows, and words of a row

// Words of two neighbouring bf16: of random numbers, and now and then of any kind, subnormal, huge, infinite, no
// number.
std::vector<float> draw_pairs(Random& random, std::size_t count, int exponent, bool any_kind) {
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

// Rows of the right operand lie apart; one tile is cleared, the others stay as they are.
TEST(AmxTiles, HaveTheBitsOfTheirEmulation) {
  if (!borrow_tiles()) GTEST_SKIP() << "no tiles here";
  using Emulated = testing::EmulatedTiles;
  constexpr std::size_t kStep = 3 * kSide;
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const auto draw = [&](std::size_t step) {
      return draw_pairs(random, kSide * step, round / 2 - 63, /*any_kind=*/round % 2 == 0);
    };
    const std::vector<float> before = draw(kSide), left = draw(kSide), right = draw(kStep);
    float got[kSide * kSide], expected[kSide * kSide];
    std::vector<float> kept(kSide * kSide), cleared = left;
    {
      const TileSession session;
      load_tile<0>(left.data(), kSide);
      load_tile<2>(before.data(), kSide);
      load_tile<5>(left.data(), kSide);
      load_tile<7>(right.data(), kStep);
      clear_tile<0>();
      multiply_tiles<2, 5, 7>();
      store_tile<0>(cleared.data(), kSide);
      store_tile<2>(got, kSide);
      store_tile<5>(kept.data(), kSide);
    }
    Emulated::load<2>(before.data(), kSide);
    Emulated::load<5>(left.data(), kSide);
    Emulated::load<7>(right.data(), kStep);
    Emulated::multiply<2, 5, 7>();
    Emulated::store<2>(expected, kSide);
    testing::expect_same_floats(got, expected);
    testing::expect_same_floats(kept, left);
    EXPECT_EQ(cleared, std::vector<float>(kSide * kSide));
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

}  // namespace
}  // namespace qkv

#endif  // __x86_64__
