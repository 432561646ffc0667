// What the instruction of AVX512-BF16 makes of a pair, one number at a time.
#pragma once

namespace qkv::testing {

struct Pair {
  float lower, upper;
};

inline Pair of_pairs(float word) {
  const auto bits = std::bit_cast<std::uint32_t>(word);
  return {std::bit_cast<float>(bits << 16), std::bit_cast<float>(bits & 0xffff0000)};
}

inline float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// VDPBF16PS (Intel 64 and IA-32 Software Developer's Manual): the upper product is added first, fused, then the lower
// one; subnormal operands and results count as 0.
inline float instruction(float left, float right, float sum) {
  const Pair a = of_pairs(left), b = of_pairs(right);
  sum = flushed(std::fma(flushed(a.upper), flushed(b.upper), flushed(sum)));
  return flushed(std::fma(flushed(a.lower), flushed(b.lower), sum));
}

// NaN agrees with NaN, other numbers in their bits.
inline void expect_same_floats(std::span<const float> got, std::span<const float> expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
  }
}

}  // namespace qkv::testing
