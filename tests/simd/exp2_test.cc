// 2^x over vectors, on each target: about 1 ULP from the exact value, and exact where softmax relies on it.
#include <cstdint>

#include "attention/attention_testing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/exp2_test.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// For a count that every vector divides.
template <class T>
void exp2_all(const T* x, T* y, std::int64_t count) {
  const Tag<T> d;
  for (std::int64_t i = 0; i < count; i += kLanes<T>) hn::StoreU(exp2<T>(hn::LoadU(d, x + i)), d, y + i);
}

void exp2_floats(const float* x, float* y, std::int64_t count) { exp2_all(x, y, count); }
void exp2_doubles(const double* x, double* y, std::int64_t count) { exp2_all(x, y, count); }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <bit>

namespace qkv {
namespace {

HWY_EXPORT(exp2_floats);
HWY_EXPORT(exp2_doubles);

QKV_ON_EACH_TARGET(Exp2);

constexpr std::int64_t kBatch = 1024;

template <class T>
std::vector<T> exp2_of(std::vector<T> x) {
  const std::size_t count = x.size();
  x.resize((count + kBatch - 1) / kBatch * kBatch);
  std::vector<T> y(x.size());
  const auto padded = static_cast<std::int64_t>(x.size());
  if constexpr (sizeof(T) == 4) {
    HWY_DYNAMIC_DISPATCH(exp2_floats)(x.data(), y.data(), padded);
  } else {
    HWY_DYNAMIC_DISPATCH(exp2_doubles)(x.data(), y.data(), padded);
  }
  y.resize(count);
  return y;
}

// |y - exact|, in units of the last place of the exact value, which must be normal.
template <class T, class Wide>
double ulps(T y, Wide exact) {
  const Wide unit = std::ldexp(Wide{1}, std::ilogb(exact) - (std::numeric_limits<T>::digits - 1));
  return static_cast<double>(std::abs(static_cast<Wide>(y) - exact) / unit);
}

// Largest error over every `stride`-th float of [-126, -2^-24] and [2^-24, 8].
double largest_error(std::uint32_t stride) {
  double largest = 0;
  std::vector<float> x;
  const auto check = [&] {
    const std::vector<float> y = exp2_of(x);
    for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, ulps(y[i], std::exp2(double{x[i]})));
    x.clear();
  };
  for (const auto& [sign, last] : {std::pair(-1.0f, 126.0f), std::pair(1.0f, 8.0f)}) {
    for (auto bits = std::bit_cast<std::uint32_t>(0x1p-24f); bits <= std::bit_cast<std::uint32_t>(last);
         bits += stride) {
      x.push_back(sign * std::bit_cast<float>(bits));
      if (x.size() == static_cast<std::size_t>(kBatch)) check();
    }
  }
  check();
  return largest;
}

// Without a fused multiply-add the last product is rounded as well: up to a quarter of a unit of a result below 1.
double most_ulps() { return selected_target() == "sse4" || selected_target() == "portable" ? 1.25 : 1; }

TEST_P(Exp2, FloatsAreWithinOneUlp) { EXPECT_LE(largest_error(199), most_ulps()); }

TEST_P(Exp2, SlowEveryFloatIsWithinOneUlp) { EXPECT_LE(largest_error(1), most_ulps()); }

TEST_P(Exp2, DoublesAreWithinOneUlp) {
  Random random(1);
  std::vector<double> x;
  for (int i = 0; i < 200000; ++i) x.push_back(-1022 + 1030 * random.uniform());
  for (int i = 0; i < 200000; ++i) x.push_back(-20 * random.uniform());
  const std::vector<double> y = exp2_of(x);
  double largest = 0;
  // long double has 11 bits more on x86-64; where it has none, the exact value is half a unit off as well.
  constexpr double kSlack = std::numeric_limits<long double>::digits > 53 ? 0 : 0.5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, ulps(y[i], std::exp2(static_cast<long double>(x[i]))));
  }
  EXPECT_LE(largest, most_ulps() + kSlack);
}

template <class T>
void check_special_values(T least_exponent) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> x = {0,
                            T(-0.0),
                            1,
                            8,
                            -1,
                            -3,
                            127,
                            -infinity,
                            -nan,
                            nan,
                            least_exponent,
                            std::nextafter(least_exponent, -infinity),
                            -std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::denorm_min()};
  const std::vector<T> y = exp2_of(x);
  const std::vector<T> whole = {1, 1, 2, 256, T(0.5), T(0.125), T(0x1p127), 0};
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(y[i], whole[i]) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
  EXPECT_TRUE(std::isnan(y[9]));
  EXPECT_EQ(y[10], std::numeric_limits<T>::min());
  EXPECT_EQ(y[11], 0);  // below the smallest normal number
  EXPECT_EQ(y[12], 0);
  EXPECT_EQ(y[13], 1);
}

TEST_P(Exp2, SpecialValuesAreExact) {
  check_special_values<float>(-126);
  check_special_values<double>(-1022);
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
