// Element types: names and sizes, and the two 16-bit types over every bit pattern.
#include "qkv/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

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
class DtypeHalf : public ::testing::Test {
 protected:
  static constexpr bool kIsBFloat16 = std::is_same_v<Half, BFloat16>;
  static constexpr int kFractionBits = kIsBFloat16 ? 7 : 10, kExponentBits = kIsBFloat16 ? 8 : 5;
  static constexpr std::uint32_t kSign = 0x8000, kInfinityBits = ((1u << kExponentBits) - 1) << kFractionBits;
  static double meaning_of(std::uint32_t bits) { return meaning(bits, kFractionBits, kExponentBits); }
};

using Halves = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(DtypeHalf, Halves);

TYPED_TEST(DtypeHalf, EveryPatternWidensToItsMeaningAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    TypeParam half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    const double expected = this->meaning_of(bits);
    const TypeParam back(value);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value) && std::isnan(static_cast<float>(back))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
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
  const struct {
    Dtype dtype;
    std::string_view name;
    std::size_t size;
  } rows[] = {{Dtype::f32, "f32", 4},     {Dtype::f64, "f64", 8}, {Dtype::bf16, "bf16", 2}, {Dtype::f16, "f16", 2},
              {Dtype::i8, "i8", 1},       {Dtype::u8, "u8", 1},   {Dtype::i16, "i16", 2},   {Dtype::u16, "u16", 2},
              {Dtype::i32, "i32", 4},     {Dtype::u32, "u32", 4}, {Dtype::i64, "i64", 8},   {Dtype::u64, "u64", 8},
              {Dtype::boolean, "bool", 1}};
  for (const auto& [dtype, name, size] : rows) {
    EXPECT_EQ(name_of(dtype), name);
    EXPECT_EQ(size_of(dtype), size) << name;
    EXPECT_EQ(is_floating(dtype), name == "f32" || name == "f64" || name == "bf16" || name == "f16") << name;
  }
}

}  // namespace
}  // namespace qkv
