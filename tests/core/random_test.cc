// Random numbers: the known answers of the paper's own library, and the ranges and moments that callers rely on.
#include "qkv/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace qkv {
namespace {

using Block = std::array<std::uint32_t, 4>;

// From kat_vectors of Random123 1.14.
TEST(Random, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 7), (Block{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamCountsBlocks) {
  Random random(5);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox({block, 0, 0, 0}, 5)) EXPECT_EQ(random.bits(), word);
  }
}

TEST(Random, StreamsHaveTheirOwnCounters) {
  Random random(5, 0x0000000700000003);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox({block, 0, 3, 7}, 5)) EXPECT_EQ(random.bits(), word);
  }
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  Random random(1);
  std::array<int, 7> count{};
  for (int i = 0; i < 7000; ++i) ++count.at(random.below(7));
  for (const int n : count) EXPECT_NEAR(n, 1000, 150);  // five standard deviations of a count
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_LT(random.below(~std::uint64_t{0}), ~std::uint64_t{0});
}

// Standard errors of 100,000 draws, five times.
TEST(Random, UniformAndNormalHaveTheirMoments) {
  Random random(2);
  constexpr int kDraws = 100000;
  double uniform = 0, normal = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u;
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 / std::sqrt(12.0 * kDraws));
  EXPECT_NEAR(normal / kDraws, 0.0, 5 / std::sqrt(1.0 * kDraws));
  EXPECT_NEAR(square / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace qkv
