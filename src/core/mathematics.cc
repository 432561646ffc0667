// The methods are those of fdlibm (Sun, 1993) and of Arm's optimized routines
// (2018): tables of 128 entries and short polynomials, here without fused
// operations, which are slow where a CPU has none and optional where a compiler
// may choose. Sums of two doubles are the exact value of a rounded sum and what
// it lost.
#include "core/mathematics.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qkv::inline core {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity(), kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kOne = 0x3ff0000000000000, kSmallestNormal = 0x0010000000000000,
                        kInfiniteBits = 0x7ff0000000000000;

std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
double with_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }

// For |x| below 2^51.
double nearest_whole(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

struct Sum {
  double value, rest;
};

// The product of the values of two is exact. For |x| between 2^-100 and 2^100.
Sum split(double x) {
  const double value = static_cast<float>(x);
  return {value, x - value};
}

using Wide = unsigned __int128;

// Numbers below 2 in units of 2^-126.
constexpr Wide kUnit = Wide{1} << 126;
constexpr Wide times(Wide a, Wide b) {
  const std::uint64_t low_a = static_cast<std::uint64_t>(a), low_b = static_cast<std::uint64_t>(b);
  const Wide high_a = a >> 64, high_b = b >> 64;
  return (high_a * high_b << 2) + ((high_a * low_b + low_a * high_b + (Wide{low_a} * low_b >> 64)) >> 62);
}

constexpr Wide distance(Wide a, Wide b) { return a < b ? b - a : a - b; }

// 2^(i / 128): the nearest double, and what it lacks divided by it.
struct PowerOfTwo {
  double nearest, rest;
};
constexpr std::array<PowerOfTwo, 128> powers_of_two() {
  constexpr std::uint64_t kLn2[] = {0xb17217f7d1cf79ab, 0xc9e3b39803f2f6af};  // its first 128 binary digits
  std::array<PowerOfTwo, 128> all{{{1, 0}}};
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Wide x = (Wide{kLn2[0]} * i << 55) + (Wide{kLn2[1]} * i >> 9);
    Wide sum = kUnit, term = kUnit;
    for (std::size_t n = 1; term > 0; ++n) sum += term = times(term, x) / n;
    const Wide nearest = (sum + (Wide{1} << 73)) >> 74;
    all[i].nearest = static_cast<double>(nearest) * 0x1p-52;
    const Wide lacks = (distance(sum, nearest << 74) << 54) / (sum >> 62) | 1;  // no quotient is between two doubles
    all[i].rest = (sum < nearest << 74 ? -0x1p-116 : 0x1p-116) * static_cast<double>(lacks);
  }
  return all;
}
constexpr std::array<PowerOfTwo, 128> kPowersOfTwo = powers_of_two();

constexpr std::uint64_t kFirstInterval = 0x3fe6000000000000;  // the bits of 0x1.6p-1

// The i-th of 128 intervals begins i / 128 of an octave's mantissas after 0x1.6p-1. Of each a number in its middle of
// 10 binary digits, its inverse, and its natural logarithm: a multiple of 2^-42, and what this lacks. The two intervals
// at 1 have 1.
struct IntervalLogarithm {
  double middle, inverse, logarithm, rest;
};
constexpr std::array<IntervalLogarithm, 128> interval_logarithms() {
  std::array<IntervalLogarithm, 128> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double middle =
        i == 79 || i == 80 ? 1 : std::bit_cast<double>(kFirstInterval + ((2 * std::uint64_t{i} + 1) << 44));
    const double sign = middle < 1 ? -1 : 1;
    // 2 atanh of this is the logarithm's size.
    const Wide part = (static_cast<Wide>(sign * (middle - 1) * 1024) << 118) / static_cast<Wide>((middle + 1) * 1024)
                      << 8;
    Wide sum = 0, term = 2 * part;
    for (std::size_t n = 1; term > 0; n += 2, term = times(times(term, part), part)) sum += term / n;
    const Wide nearest = (sum + (Wide{1} << 83)) >> 84;
    const double lacks =
        static_cast<double>(distance(sum, nearest << 84)) * (sum < nearest << 84 ? -0x1p-126 : 0x1p-126);
    all[i] = {middle, 1 / middle, sign * static_cast<double>(nearest) * 0x1p-42, sign * lacks};
  }
  return all;
}
constexpr std::array<IntervalLogarithm, 128> kLogarithms = interval_logarithms();

// The binary digits of 2 / pi behind the point.
constexpr std::uint64_t kTwoOverPi[20] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
};

constexpr double kStepsOfLn2 = 0x1.71547652b82fep+7;  // 128 / ln 2
constexpr double kMostExponent = 746;                 // of e: beyond it a power is infinite or 0

// A power of e: 2^exponent * nearest * (1 + more).
struct Power {
  double nearest, more;
  std::int64_t exponent;

  double scale() const { return with_bits(bits_of(nearest) + (static_cast<std::uint64_t>(exponent) << 52)); }
};

// e^(x + rest) for |x| up to kMostExponent.
Power power_of(double x, double rest) {
  constexpr double kHigh = 0x1.62e42fefa0000p-8, kLow = 0x1.cf79abc9e3b3ap-47;  // ln 2 / 128
  const double steps = nearest_whole(x * kStepsOfLn2);
  const auto k = static_cast<std::int64_t>(steps);
  const PowerOfTwo& power = kPowersOfTwo[static_cast<std::size_t>(k & 127)];
  const double r = x - steps * kHigh - steps * kLow + rest, r2 = r * r;
  const double more = power.rest + r + r2 * (1.0 / 2 + r * (1.0 / 6) + r2 * (1.0 / 24 + r * (1.0 / 120)));
  return {power.nearest, more, k >> 7};
}

double exp_of(double x, double rest) {
  const Power power = power_of(x, rest);
  const std::int64_t exponent = power.exponent;
  if (exponent > -1022 && exponent < 1023) {
    const double scale = power.scale();
    return scale + scale * power.more;
  }
  const double mantissa = power.nearest + power.nearest * power.more;
  if (exponent >= 1023)
    return mantissa * 0x1p1023 * with_bits(kOne + (static_cast<std::uint64_t>(exponent - 1023) << 52));
  // The last factor is the only one that rounds.
  const double half = mantissa * with_bits(kOne - (std::uint64_t{1000} << 52));
  return half * with_bits(kOne + (static_cast<std::uint64_t>(exponent + 1000) << 52));
}

// x = 2^exponent * z, and z = middle + above, of the interval's middle.
struct Reduced {
  double exponent, above;
  const IntervalLogarithm& interval;
};

// Of a normal number.
Reduced reduce(std::uint64_t bits) {
  const std::uint64_t after = bits - kFirstInterval;
  const IntervalLogarithm& interval = kLogarithms[after >> 45 & 127];
  return {static_cast<double>(static_cast<std::int64_t>(after) >> 52),
          with_bits(bits - (after & 0xfff0000000000000)) - interval.middle, interval};
}

// The bits of a positive finite number, scaled by 2^52 where it is subnormal,
// with that in the exponent, too.
std::uint64_t normal_bits(double x) {
  if (bits_of(x) >= kSmallestNormal) return bits_of(x);
  return bits_of(x * 0x1p52) - (std::uint64_t{52} << 52);
}

constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 0x1.ef35793c76730p-45;

// The logarithm of a positive finite number to 68 binary digits.
[[gnu::always_inline]] inline Sum long_log(double x) {
  const Reduced at = reduce(normal_bits(x));
  const double r = at.above * at.interval.inverse;
  const double high = split(r).value, low_r = (at.above - high * at.interval.middle) * at.interval.inverse;
  const double whole = at.exponent * kLn2High + at.interval.logarithm;
  const double first = whole + high;
  const double half = -0.5 * r, half2 = r * half, half3 = r * half2;
  const double high_half = -0.5 * high, high_half2 = high * high_half;
  const double second = first + high_half2;
  const double r2 = r * r;
  const double rest = half3 * (-2.0 / 3 + r * (1.0 / 2) + r2 * (-2.0 / 5 + r * (1.0 / 3)) +
                               r2 * r2 * (-2.0 / 7 + r * (1.0 / 4) + r2 * (-2.0 / 9)));
  const double low = at.exponent * kLn2Low + at.interval.rest + (whole - first + high) + low_r +
                     low_r * (half + high_half) + (first - second + high_half2) + rest;
  const double value = second + low;
  return {value, second - value + low};
}

// of * y, the sum's value exactly before it is rounded to the two.
Sum product(const Sum& of, double y) {
  const Sum a = split(y), b = split(of.value);
  return {a.value * b.value, a.rest * b.value + y * (b.rest + of.rest)};
}

bool is_whole(double x) { return std::floor(x) == x; }
bool is_odd(double x) { return is_whole(x) && !is_whole(x / 2); }

// Of pow, where x is no positive finite number, or y is 0, tiny, huge or not finite.
double special_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(x) || std::isnan(y)) return x + y;
  const double size = std::abs(x);
  if (std::abs(y) >= 0x1p64) return size == 1 ? 1 : (size > 1) == (y > 0) ? kInfinite : 0;
  if (x == 0 || std::isinf(x)) {
    const double power = (x == 0) == (y > 0) ? 0 : kInfinite;
    return std::signbit(x) && is_odd(y) ? -power : power;
  }
  if (!is_whole(y)) return x < 0 ? kNone : 1;
  return is_odd(y) ? -pow(size, y) : pow(size, y);
}

// x less a multiple of pi / 2, in [-pi / 4, pi / 4], and this multiple
// modulo 4.
struct Angle {
  double value, rest;
  unsigned quarter;
};

// 64 digits of 2 / pi, the first of them `from` behind the point.
std::uint64_t digits_from(std::int64_t from) {
  if (from <= -64) return 0;
  if (from < 0) return kTwoOverPi[0] >> -from;
  const std::int64_t word = from / 64, shift = from % 64;
  return shift == 0 ? kTwoOverPi[word] : kTwoOverPi[word] << shift | kTwoOverPi[word + 1] >> (64 - shift);
}

// By the digits of 2 / pi that count, after Payne and Hanek: those before them
// give whole turns.
Angle reduce_large(double x) {
  const std::uint64_t bits = bits_of(x);
  const std::uint64_t mantissa = (bits & 0x000fffffffffffff) | kSmallestNormal;
  const std::int64_t exponent = static_cast<std::int64_t>(bits >> 52 & 0x7ff) - 1075;
  // The product's unit is 2^-190; its 192 digits begin with the two of the
  // quarter.
  const Wide high = Wide{mantissa * digits_from(exponent - 2)} << 64;
  const Wide middle = Wide{mantissa} * digits_from(exponent + 62), low = Wide{mantissa} * digits_from(exponent + 126);
  const Wide product = high + middle + (low >> 64);  // in units of 2^-126
  auto quarter = static_cast<unsigned>(product >> 126);
  Wide fraction = product << 2;  // in units of 2^-128
  const bool above = fraction >> 127 != 0;
  if (above) {
    ++quarter;
    fraction = -fraction;
  }
  const auto top = static_cast<std::uint64_t>(fraction >> 64), bottom = static_cast<std::uint64_t>(fraction);
  const double first = static_cast<double>(top >> 11) * 0x1p-53;
  const double second = static_cast<double>(top & 0x7ff) * 0x1p-64 + static_cast<double>(bottom >> 11) * 0x1p-117;
  constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiRest = 0x1.1a62633145c07p-54;
  const Sum a = split(first), b = split(kHalfPi);
  const double value = first * kHalfPi;
  const double rest = a.value * b.value - value + a.value * b.rest + a.rest * b.value + a.rest * b.rest +
                      (first * kHalfPiRest + second * kHalfPi);
  const double sign = above == std::signbit(x) ? 1 : -1;
  const double sum = value + rest;
  return {sign * sum, sign * (value - sum + rest), std::signbit(x) ? 0 - quarter : quarter};
}

Angle reduce_angle(double x) {
  constexpr double kQuarter = 0.785398163397448, kTwoThroughPi = 0x1.45f306dc9c883p-1;
  if (std::abs(x) <= kQuarter) return {x, 0, 0};
  if (std::abs(x) > 0x1p20) return reduce_large(x);
  constexpr double kFirst = 0x1.921fb54400000p+0, kSecond = 0x1.0b4611a600000p-34, kThird = 0x1.3198a2e037073p-69;
  const double steps = nearest_whole(x * kTwoThroughPi);
  const double high = x - steps * kFirst, next = steps * kSecond;
  const double less = high - next, back = high - less;
  const double low = (back - next) + (high - (less + back)) - steps * kThird;
  const double value = less + low;
  if (std::abs(value) < 0x1p-40) return reduce_large(x);  // too few digits are left
  return {value, less - value + low, static_cast<unsigned>(static_cast<std::int64_t>(steps))};
}

// Of an angle up to pi / 4.
double sine(const Angle& of) {
  const double x = of.value, z = x * x, x3 = z * x;
  const double rest =
      8.33333333332248946124e-03 +
      z * (-1.98412698298579493134e-04 +
           z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  return x - ((z * (0.5 * of.rest - x3 * rest) - of.rest) + x3 * 1.66666666666666324348e-01);
}

double cosine(const Angle& of) {
  const double x = of.value, z = x * x, half = 0.5 * z, most = 1 - half;
  const double rest = z * (4.16666666666666019037e-02 +
                           z * (-1.38888888888741095749e-03 +
                                z * (2.48015872894767294178e-05 +
                                     z * (-2.75573143513906633035e-07 +
                                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  return most + (((1 - most) - half) + (z * rest - x * of.rest));
}

}  // namespace

double exp(double x) {
  if (std::abs(x) <= kMostExponent) return exp_of(x, 0);
  return x > 0 ? kInfinite : x < 0 ? 0 : x;
}

double log(double x) {
  std::uint64_t bits = bits_of(x);
  if (bits - kSmallestNormal >= kInfiniteBits - kSmallestNormal) {
    if (!(x > 0) || x == kInfinite) return x == 0 ? -kInfinite : x > 0 || std::isnan(x) ? x : kNone;
    bits = normal_bits(x);
  }
  const Reduced at = reduce(bits);
  const double r = at.above * at.interval.inverse, r2 = r * r;
  const double whole = at.exponent * kLn2High + at.interval.logarithm;
  const double sum = whole + r;
  const double low = whole - sum + r + (at.exponent * kLn2Low + at.interval.rest);
  const double rest = -1.0 / 2 + r * (1.0 / 3) + r2 * (-1.0 / 4 + r * (1.0 / 5)) +
                      r2 * r2 * (-1.0 / 6 + r * (1.0 / 7) + r2 * (-1.0 / 8 + r * (1.0 / 9)));
  return sum + (low + r2 * rest);
}

double log10(double x) {
  if (!(x > 0) || x == kInfinite) return log(x);
  constexpr double kOverLn10 = 0x1.bcb7b1526e50ep-2, kOverLn10Rest = 0x1.95355baaafad3p-57;
  const Sum logarithm = long_log(x), most = product(logarithm, kOverLn10);
  return most.value + (most.rest + logarithm.value * kOverLn10Rest);
}

double pow(double x, double y) {
  constexpr std::uint64_t kLeast = 0x3bf, kMost = 0x43e;  // exponents of y: 2^-64 to 2^64
  if (bits_of(x) - 1 >= kInfiniteBits - 1 || (bits_of(y) >> 52 & 0x7ff) - kLeast > kMost - kLeast)
    return special_pow(x, y);
  const Sum exponent = product(long_log(x), y);
  if (std::abs(exponent.value) > kMostExponent) return exponent.value > 0 ? kInfinite : 0;
  return exp_of(exponent.value, exponent.rest);
}

double sin(double x) {
  if (!std::isfinite(x)) return kNone;
  const Angle angle = reduce_angle(x);
  const double size = angle.quarter % 2 == 0 ? sine(angle) : cosine(angle);
  return angle.quarter & 2 ? -size : size;
}

double cos(double x) {
  if (!std::isfinite(x)) return kNone;
  const Angle angle = reduce_angle(x);
  const double size = angle.quarter % 2 == 0 ? cosine(angle) : sine(angle);
  return (angle.quarter + 1) & 2 ? -size : size;
}

double tanh(double x) {
  const double size = std::abs(x);
  if (!(size < 20)) return std::isnan(x) ? x : std::copysign(1.0, x);  // to all digits
  if (size < 0x1p-5) {
    const double z = x * x;
    return x * (1 + z * (-1.0 / 3 + z * (2.0 / 15 + z * (-17.0 / 315 + z * (62.0 / 2835)))));
  }
  const Power power = power_of(2 * size, 0);
  const double scale = power.scale(), most = scale - 1, rest = scale * power.more;
  const double above = most + rest, below = above + 2;  // e^(2 size) -+ 1
  const double above_rest = most - above + rest, below_rest = 2 - below + above + above_rest;
  const double value = above / below;
  return std::copysign(value + (above_rest - value * below_rest) / below, x);
}

float exp(float x) {
  if (!(std::abs(x) <= 128)) return x > 0 ? std::numeric_limits<float>::infinity() : x < 0 ? 0 : x;
  const double steps = nearest_whole(x * kStepsOfLn2), r = x - steps * (1 / kStepsOfLn2);
  const auto k = static_cast<std::int64_t>(steps);
  const double scale = with_bits(bits_of(kPowersOfTwo[static_cast<std::size_t>(k & 127)].nearest) +
                                 (static_cast<std::uint64_t>(k >> 7) << 52));
  return static_cast<float>(scale + scale * (r + r * r * (1.0 / 2 + r * (1.0 / 6))));
}

float log(float x) {
  constexpr std::uint32_t kSmallest = 0x00800000, kInfiniteFloat = 0x7f800000;
  if (std::bit_cast<std::uint32_t>(x) - kSmallest >= kInfiniteFloat - kSmallest)
    return static_cast<float>(log(static_cast<double>(x)));
  const Reduced at = reduce(bits_of(x));
  const double r = at.above * at.interval.inverse, r2 = r * r;
  return static_cast<float>(at.exponent * kLn2High + at.interval.logarithm +
                            (r + r2 * (-1.0 / 2 + r * (1.0 / 3) + r2 * (-1.0 / 4))));
}

template <class T>
T log_sum_exp(T maximum, T sum, double unit) {
  if (sum == 0) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(unit * static_cast<double>(maximum) + log(static_cast<double>(sum)));
}
template float log_sum_exp(float, float, double);
template double log_sum_exp(double, double, double);

}  // namespace qkv::inline core
