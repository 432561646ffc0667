// The library's own elementary functions against those of the C library in a wider type, whose results outside of a
// function's domain are those of Annex F of C.
#include "core/mathematics.h"

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

// The largest error seen, and where.
struct Worst {
  double error = 0, at = 0, second = 0;

  void see(double now, double x, double y = 0) {
    if (now > error) error = now, at = x, second = y;
  }
};

template <class T, class Wide>
struct Function {
  const char* name;
  T (*own)(T);
  Wide (*exact)(Wide);
  std::vector<std::pair<double, double>> intervals{};  // where it is looked at closely

  double error(T x) const { return error_of(own(x), exact(static_cast<Wide>(x))); }
};

const Function<float, double> kOfFloats[] = {{"exp", exp, std::exp}, {"log", log, std::log}};
const Function<double, long double> kOfDoubles[] = {{"exp", exp, std::exp, {{-1, 1}, {-746, 711}}},
                                                    {"log", log, std::log, {{0.99, 1.01}, {0.5, 2}}},
                                                    {"log10", log10, std::log10, {{0.99, 1.01}, {0.5, 2}}},
                                                    {"sin", sin, std::sin, {{-7, 7}, {-2e6, 2e6}}},
                                                    {"cos", cos, std::cos, {{-7, 7}, {-2e6, 2e6}}},
                                                    {"tanh", tanh, std::tanh, {{-0.1, 0.1}, {-1, 1}, {-21, 21}}}};

double power_error(double x, double y) {
  return error_of(pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y)));
}

// Numbers of every exponent and sign, infinities and NaN among them.
double any_number(Random& random) {
  const std::uint64_t high = random.bits();
  return std::bit_cast<double>(high << 32 | random.bits());
}

// Every float, or one of `step` of them.
void expect_floats(std::uint64_t step) {
  for (const auto& function : kOfFloats) {
    Worst worst;
    for (std::uint64_t bits = 0; bits <= 0xffffffff; bits += step) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      worst.see(function.error(x), x);
    }
    EXPECT_LE(worst.error, 1) << function.name << " of " << worst.at;
  }
}

// As many of each interval, and of numbers of every size; and powers of every size that a double holds, of every base.
void expect_doubles(int samples) {
  for (const auto& function : kOfDoubles) {
    Random random(1);
    Worst worst;
    for (int i = 0; i < samples; ++i) {
      for (const auto& [low, high] : function.intervals) {
        const double x = low + (high - low) * random.uniform();
        worst.see(function.error(x), x);
      }
      const double x = any_number(random);
      worst.see(function.error(x), x);
    }
    EXPECT_LE(worst.error, 2) << function.name << " of " << worst.at;
  }
  Random random(2);
  Worst worst;
  for (int i = 0; i < samples; ++i) {
    const double x = i % 2 == 0 ? 3 * random.uniform() : std::abs(any_number(random));
    const double y = i % 3 == 0 ? any_number(random) : (1500 * random.uniform() - 750) / std::log(x);
    worst.see(power_error(x, y), x, y);
  }
  EXPECT_LE(worst.error, 2) << worst.at << " to the power of " << worst.second;
}

TEST(Mathematics, OneUnitOfAnyFloat) { expect_floats(10007); }
TEST(Mathematics, TwoUnitsOfAnyDouble) { expect_doubles(50'000); }
TEST(SlowMathematics, OneUnitOfEveryFloat) { expect_floats(1); }
TEST(SlowMathematics, TwoUnitsOfAnyDouble) { expect_doubles(10'000'000); }

// Near the multiples of pi / 2 almost all digits of an angle are lost.
TEST(Mathematics, AnglesNearAxes) {
  for (const auto& function : {kOfDoubles[3], kOfDoubles[4]}) {
    Worst worst;
    for (int i = 1; i < 100'000; ++i) {
      const double at = i * 1.5707963267948966;
      for (const double x : {std::nextafter(at, 0), at, -std::nextafter(at, kInfinite)})
        worst.see(function.error(x), x);
    }
    EXPECT_LE(worst.error, 2) << function.name << " of " << worst.at;
  }
}

TEST(Mathematics, ExactPowers) {
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
    ASSERT_EQ(pow(n / 1024.0, 1), n / 1024.0) << n;
  }
}

const double kSpecial[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, kInfinite, -kInfinite, kNone, kLeast, -kLeast,
                           kLargest, -kLargest, 0x1p53, -0x1p53, 0x1p53 - 1, 1 - 0x1p-53, 1 + 0x1p-52, -1.5, 1e-30,
                           -1e-30, 0x1p64, -0x1p64, 0x1p-64, 0x1p-65, -8, 1.0 / 3,
                           // Angles near the multiples of pi / 2, the closest one of all (Kahan), and a large one (Ng).
                           1e22, 0x1.6ac5b262ca1ffp+849};

// Where the result is a number of the type, it is that number: 0, 1, infinity, the least one.
template <class T, class Wide>
void expect_special(const Function<T, Wide>& function, T x) {
  const Wide exact = function.exact(static_cast<Wide>(x));
  const bool is_exact = static_cast<Wide>(static_cast<T>(exact)) == exact;
  EXPECT_LE(function.error(x), is_exact ? 0 : 1) << function.name << " of " << x << ": " << function.own(x);
}

TEST(Mathematics, SpecialNumbers) {
  using Limits = std::numeric_limits<float>;
  for (const auto& function : kOfFloats) {
    for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, Limits::max(), Limits::lowest(), Limits::denorm_min(),
                          Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
      expect_special(function, x);
    }
  }
  for (const double x : kSpecial) {
    for (const auto& function : kOfDoubles) expect_special(function, x);
    for (const double y : kSpecial) {
      EXPECT_LE(power_error(x, y), 1) << x << " to the power of " << y << ": " << pow(x, y);
    }
  }
  // The last argument before infinity and its successor; the same of the smallest subnormal and 0.
  EXPECT_LE(error_of(exp(0x1.62e42fefa39efp+9), std::exp(0x1.62e42fefa39efp+9L)), 1);
  EXPECT_EQ(exp(0x1.62e42fefa39f0p+9), kInfinite);
  EXPECT_EQ(exp(-0x1.74910d52d3051p+9), kLeast);
  EXPECT_EQ(exp(-0x1.74910d52d3052p+9), 0);
}

}  // namespace
}  // namespace qkv
