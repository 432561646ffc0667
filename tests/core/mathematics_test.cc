// The library's own elementary functions against those of the C library in a wider type, and what Annex F of C says of
// arguments outside of a function's domain.
#include "core/mathematics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "qkv/random.h"

namespace qkv {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity(), kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max(), kLeast = std::numeric_limits<double>::denorm_min();

// How far a result is from the exact one, in units of the last place.
template <class T, class Wide>
double error_of(T got, Wide exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : kInfinite;
  const T nearest = static_cast<T>(exact);
  if (exact == 0 || std::isinf(nearest) || std::isinf(got))
    return got == nearest && std::signbit(got) == std::signbit(nearest) ? 0 : kInfinite;
  using Limits = std::numeric_limits<T>;
  const int exponent = std::max(std::ilogb(exact), Limits::min_exponent - 1) - (Limits::digits - 1);
  return static_cast<double>(std::abs(std::ldexp(static_cast<Wide>(got) - exact, -exponent)));
}

struct Worst {
  double error = 0, at = 0, second = 0;

  void see(double now, double x, double y = 0) {
    if (now > error) error = now, at = x, second = y;
  }
};

// Every float, or one of `step` of them.
void expect_floats(const char* name, std::uint64_t step, float (*own)(float), double (*exact)(double)) {
  Worst worst;
  for (std::uint64_t bits = 0; bits <= 0xffffffff; bits += step) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    worst.see(error_of(own(x), exact(static_cast<double>(x))), x);
  }
  EXPECT_LE(worst.error, 1) << name << " of " << worst.at;
}

void expect_all_floats(std::uint64_t step) {
  expect_floats("exp", step, exp, std::exp);
  expect_floats("log", step, log, std::log);
}

// Numbers of every exponent and sign, infinities and NaN among them.
double any_number(Random& random) {
  const std::uint64_t high = random.bits();
  return std::bit_cast<double>(high << 32 | random.bits());
}

struct Interval {
  double low, high;
};

// As many of each interval, and of numbers of every size.
void expect_doubles(const char* name, int samples, std::initializer_list<Interval> intervals, double (*own)(double),
                    long double (*exact)(long double)) {
  Random random(1);
  Worst worst;
  const auto see = [&](double x) { worst.see(error_of(own(x), exact(static_cast<long double>(x))), x); };
  for (const Interval& of : intervals) {
    for (int i = 0; i < samples; ++i) see(of.low + (of.high - of.low) * random.uniform());
  }
  for (int i = 0; i < samples; ++i) see(any_number(random));
  EXPECT_LE(worst.error, 2) << name << " of " << worst.at;
}

// Powers of every size that a double holds, of every base.
void expect_powers(int samples) {
  Random random(2);
  Worst worst;
  for (int i = 0; i < samples; ++i) {
    const double x = i % 2 == 0 ? 3 * random.uniform() : std::abs(any_number(random));
    const double y = i % 3 == 0 ? any_number(random) : (1500 * random.uniform() - 750) / std::log(x);
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    worst.see(error_of(pow(x, y), exact), x, y);
  }
  EXPECT_LE(worst.error, 2) << worst.at << " to the power of " << worst.second;
}

void expect_all_doubles(int samples) {
  expect_doubles("exp", samples, {{-1, 1}, {-746, 711}}, exp, std::exp);
  expect_doubles("log", samples, {{0.99, 1.01}, {0.5, 2}}, log, std::log);
  expect_doubles("log10", samples, {{0.99, 1.01}, {0.5, 2}}, log10, std::log10);
  expect_doubles("sin", samples, {{-7, 7}, {-2e6, 2e6}}, sin, std::sin);
  expect_doubles("cos", samples, {{-7, 7}, {-2e6, 2e6}}, cos, std::cos);
  expect_doubles("tanh", samples, {{-0.1, 0.1}, {-1, 1}, {-21, 21}}, tanh, std::tanh);
  expect_powers(samples);
}

TEST(Mathematics, OneUnitOfAnyFloat) { expect_all_floats(10007); }
TEST(Mathematics, TwoUnitsOfAnyDouble) { expect_all_doubles(100'000); }
TEST(SlowMathematics, OneUnitOfEveryFloat) { expect_all_floats(1); }
TEST(SlowMathematics, TwoUnitsOfAnyDouble) { expect_all_doubles(10'000'000); }

// Near the multiples of pi / 2 almost all digits of an angle are lost.
TEST(Mathematics, AnglesNearAxes) {
  Worst sines, cosines;
  for (int i = 1; i < 100'000; ++i) {
    const double at = i * 1.5707963267948966;
    for (const double x : {std::nextafter(at, 0), at, -std::nextafter(at, kInfinite)}) {
      sines.see(error_of(sin(x), std::sin(static_cast<long double>(x))), x);
      cosines.see(error_of(cos(x), std::cos(static_cast<long double>(x))), x);
    }
  }
  EXPECT_LE(sines.error, 2) << sines.at;
  EXPECT_LE(cosines.error, 2) << cosines.at;
}

// Known to 20 digits: the double closest to a multiple of pi / 2 (Kahan's 6381956970095103 * 2^797), and the
// large angle of Ng's "Argument reduction for huge arguments".
TEST(Mathematics, KnownAngles) {
  EXPECT_LE(error_of(cos(std::ldexp(6381956970095103.0, 797)), -4.68716592425462761112e-19L), 2);
  EXPECT_LE(error_of(sin(1e22), -0.85220084976718880177L), 2);
  EXPECT_EQ(cos(0.0), 1);
  EXPECT_EQ(sin(kLeast), kLeast);
}

TEST(Mathematics, ExactResults) {
  for (int n = -1074; n < 1024; ++n) ASSERT_EQ(pow(2, n), std::ldexp(1.0, n)) << n;
  double power = 1;
  for (int n = 0; n <= 22; ++n, power *= 10) {
    ASSERT_EQ(pow(10, n), power) << n;
    ASSERT_EQ(log10(power), n) << n;
  }
  for (int n = 1; n <= 1000; ++n) {
    ASSERT_EQ(pow(n, 2), n * n) << n;
    ASSERT_EQ(pow(n * n, 0.5), n) << n;
    ASSERT_EQ(pow(-n, 3), -1.0 * n * n * n) << n;
    ASSERT_EQ(pow(1 / 1024.0 * n, 1), 1 / 1024.0 * n) << n;
  }
  EXPECT_EQ(exp(0.0), 1);
  EXPECT_EQ(exp(0.0f), 1);
  EXPECT_EQ(log(1.0f), 0);
  EXPECT_EQ(log(1.0), 0);
}

template <class T>
void expect_special_exp_and_log() {
  constexpr T kInfiniteOf = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exp(kInfiniteOf), kInfiniteOf);
  EXPECT_EQ(exp(-kInfiniteOf), 0);
  EXPECT_EQ(exp(std::numeric_limits<T>::max()), kInfiniteOf);
  EXPECT_EQ(exp(std::numeric_limits<T>::lowest()), 0);
  EXPECT_EQ(exp(std::numeric_limits<T>::denorm_min()), 1);
  EXPECT_TRUE(std::isnan(exp(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_EQ(log(kInfiniteOf), kInfiniteOf);
  EXPECT_EQ(log(T(0)), -kInfiniteOf);
  EXPECT_EQ(log(T(-0.0)), -kInfiniteOf);
  EXPECT_TRUE(std::isnan(log(T(-1))));
  EXPECT_TRUE(std::isnan(log(-kInfiniteOf)));
  EXPECT_TRUE(std::isnan(log(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_FALSE(std::signbit(log(T(1))));
}

TEST(Mathematics, SpecialExpAndLog) {
  expect_special_exp_and_log<float>();
  expect_special_exp_and_log<double>();
  EXPECT_EQ(log10(kInfinite), kInfinite);
  EXPECT_EQ(log10(-0.0), -kInfinite);
  EXPECT_TRUE(std::isnan(log10(-kLeast)));
  // The last argument before infinity and its successor; the same of the smallest subnormal and 0.
  EXPECT_LE(error_of(exp(0x1.62e42fefa39efp+9), std::exp(0x1.62e42fefa39efp+9L)), 1);
  EXPECT_EQ(exp(0x1.62e42fefa39f0p+9), kInfinite);
  EXPECT_EQ(exp(-0x1.74910d52d3051p+9), kLeast);
  EXPECT_EQ(exp(-0x1.74910d52d3052p+9), 0);
}

TEST(Mathematics, SpecialAngles) {
  for (const double x : {kInfinite, -kInfinite, kNone}) {
    EXPECT_TRUE(std::isnan(sin(x)));
    EXPECT_TRUE(std::isnan(cos(x)));
  }
  EXPECT_TRUE(std::signbit(sin(-0.0)));
  EXPECT_FALSE(std::signbit(sin(0.0)));
  EXPECT_EQ(tanh(kInfinite), 1);
  EXPECT_EQ(tanh(-kLargest), -1);
  EXPECT_TRUE(std::signbit(tanh(-0.0)));
  EXPECT_TRUE(std::isnan(tanh(kNone)));
}

// F.10.4.4 of C17, and what the C library makes of the same arguments.
TEST(Mathematics, SpecialPowers) {
  const double numbers[] = {0.0,       -0.0,   1,         -1,         2,           -2,          0.5,     -0.5,
                            3,         -3,     kInfinite, -kInfinite, kNone,       kLeast,      -kLeast, kLargest,
                            -kLargest, 0x1p53, -0x1p53,   0x1p53 - 1, 1 - 0x1p-53, 1 + 0x1p-52, -1.5,    1e-30,
                            -1e-30,    0x1p64, -0x1p64,   0x1p-64,    0x1p-65};
  for (const double x : numbers) {
    for (const double y : numbers) {
      const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
      EXPECT_LE(error_of(pow(x, y), exact), 1) << x << " to the power of " << y << ": " << pow(x, y);
    }
  }
  EXPECT_EQ(pow(0.0, -1), kInfinite);
  EXPECT_EQ(pow(-0.0, -1), -kInfinite);
  EXPECT_EQ(pow(-0.0, -2), kInfinite);
  EXPECT_EQ(pow(-0.0, -0.5), kInfinite);
  EXPECT_EQ(pow(-1, kInfinite), 1);
  EXPECT_EQ(pow(-1, -kInfinite), 1);
  EXPECT_EQ(pow(1, kNone), 1);
  EXPECT_EQ(pow(kNone, -0.0), 1);
  EXPECT_TRUE(std::isnan(pow(-8, 1.0 / 3)));
  EXPECT_EQ(pow(0.5, -kInfinite), kInfinite);
  EXPECT_EQ(pow(2, -kInfinite), 0);
  EXPECT_EQ(pow(-kInfinite, -3), 0);
  EXPECT_TRUE(std::signbit(pow(-kInfinite, -3)));
  EXPECT_EQ(pow(-kInfinite, 3), -kInfinite);
  EXPECT_EQ(pow(-kInfinite, 0.5), kInfinite);
}

}  // namespace
}  // namespace qkv
