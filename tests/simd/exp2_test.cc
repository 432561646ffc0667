// 2^x over vectors, on each target: about 1 ULP from the exact value, and exact where softmax relies on it.
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

namespace qkv {
namespace {

HWY_EXPORT(exp2_floats);
HWY_EXPORT(exp2_doubles);

QKV_ON_EACH_TARGET(Exp2);

constexpr std::uint32_t kBatch = 1024;

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
  const auto bits_of = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (const auto& [sign, last] : {std::pair(-1.0f, 126.0f), std::pair(1.0f, 8.0f)}) {
    for (std::uint32_t begin = bits_of(0x1p-24f); begin <= bits_of(last); begin += kBatch * stride) {
      std::vector<float> x;
      const std::uint32_t end = std::min<std::uint32_t>(begin + kBatch * stride - 1, bits_of(last));
      for (std::uint32_t bits = begin; bits <= end; bits += stride) x.push_back(sign * std::bit_cast<float>(bits));
      const std::vector<float> y = exp2_of(x);
      for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, ulps(y[i], std::exp2(double{x[i]})));
    }
  }
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
  using Limits = std::numeric_limits<T>;
  const std::pair<T, T> exact[] = {{0, 1},
                                   {T(-0.0), 1},
                                   {1, 2},
                                   {8, 256},
                                   {-1, T(0.5)},
                                   {-3, T(0.125)},
                                   {127, T(0x1p127)},
                                   {-Limits::infinity(), 0},
                                   {least_exponent, Limits::min()},
                                   {std::nextafter(least_exponent, -Limits::infinity()), 0},
                                   {-Limits::max(), 0},
                                   {Limits::denorm_min(), 1}};
  std::vector<T> x;
  for (const auto& [from, to] : exact) x.push_back(from);
  const std::vector<T> y = exp2_of(x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], exact[i].second) << x[i];
  for (const T number : exp2_of<T>({Limits::quiet_NaN(), -Limits::quiet_NaN()})) EXPECT_TRUE(std::isnan(number));
}

TEST_P(Exp2, SpecialValuesAreExact) {
  check_special_values<float>(-126);
  check_special_values<double>(-1022);
}

}  // namespace
}  // namespace qkv

#endif  // HWY_ONCE
