// Element types: names and sizes, and the two 16-bit types over every bit pattern.
#include "qkv/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace qkv {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What the bits mean, by the definition of a binary format: fraction bits, exponent bits, then the sign.
double meaning(std::uint32_t bits, int fraction_bits, int exponent_bits) {
  const int largest = (1 << exponent_bits) - 1, bias = largest / 2;
  const int exponent = static_cast<int>(bits >> fraction_bits) & largest;
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const double sign = bits >> (fraction_bits + exponent_bits) ? -1.0 : 1.0;
  if (exponent == largest) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
}

template <class Half>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int kFractionBits = 7, kExponentBits = 8;
};
template <>
struct Format<Float16> {
  static constexpr int kFractionBits = 10, kExponentBits = 5;
};

template <class Half>
class DtypeHalf : public ::testing::Test {
 protected:
  static double meaning_of(std::uint32_t bits) {
    return meaning(bits, Format<Half>::kFractionBits, Format<Half>::kExponentBits);
  }
  static constexpr std::uint32_t kSign = 0x8000;
  static constexpr std::uint32_t kInfinityBits = ((1u << Format<Half>::kExponentBits) - 1)
                                                 << Format<Half>::kFractionBits;
};

using Halves = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(DtypeHalf, Halves);

TYPED_TEST(DtypeHalf, EveryPatternWidensToItsMeaning) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    TypeParam half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    const double expected = this->meaning_of(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    }
  }
}

TYPED_TEST(DtypeHalf, EveryPatternComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    TypeParam half;
    half.bits = static_cast<std::uint16_t>(bits);
    const TypeParam back(static_cast<float>(half));
    if (std::isnan(this->meaning_of(bits))) {
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, bits);
    }
  }
}

// Between each number and the next: the midpoint goes to the even one, its neighbours in f32 to the nearer one. The
// midpoint beyond the largest number goes to infinity.
TYPED_TEST(DtypeHalf, RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < this->kInfinityBits; ++bits) {
    const double low = this->meaning_of(bits);
    const double step = bits == 0 ? this->meaning_of(1) : low - this->meaning_of(bits - 1);
    const bool last = bits + 1 == this->kInfinityBits;
    const double high = last ? low + step : this->meaning_of(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2) << bits;
    for (const std::uint32_t sign : {0u, this->kSign}) {
      const float factor = sign ? -1.0f : 1.0f;
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(TypeParam(factor * middle).bits, sign | even) << bits;
      ASSERT_EQ(TypeParam(factor * std::nextafter(middle, 0.0f)).bits, sign | bits) << bits;
      ASSERT_EQ(TypeParam(factor * std::nextafter(middle, kInfinity)).bits, sign | (bits + 1)) << bits;
    }
  }
}

TYPED_TEST(DtypeHalf, InfinityAndNaNStay) {
  EXPECT_EQ(TypeParam(kInfinity).bits, this->kInfinityBits);
  EXPECT_EQ(TypeParam(-kInfinity).bits, this->kSign | this->kInfinityBits);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, this->kInfinityBits);
  // A NaN whose payload lies in the bits that are cut off.
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0xff800001u)))));
}

TEST(Dtype, NamesAndSizes) {
  const std::vector<std::pair<Dtype, std::string_view>> names = {
      {Dtype::f32, "f32"}, {Dtype::f64, "f64"}, {Dtype::bf16, "bf16"},   {Dtype::f16, "f16"}, {Dtype::i8, "i8"},
      {Dtype::u8, "u8"},   {Dtype::i16, "i16"}, {Dtype::u16, "u16"},     {Dtype::i32, "i32"}, {Dtype::u32, "u32"},
      {Dtype::i64, "i64"}, {Dtype::u64, "u64"}, {Dtype::boolean, "bool"}};
  const std::vector<std::size_t> sizes = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(name_of(names[i].first), names[i].second);
    EXPECT_EQ(size_of(names[i].first), sizes[i]) << names[i].second;
    EXPECT_EQ(is_floating(names[i].first), i < 4) << names[i].second;
  }
}

}  // namespace
}  // namespace qkv
