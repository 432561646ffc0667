// The arithmetic of serde_json 1.0 without its feature float_roundtrip (src/de.rs: parse_decimal, parse_exponent,
// f64_from_parts).
#include "io/json/serde_number.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace qkv::io {
namespace {

constexpr int kLargestPower = 308;

// Powers of ten, each the nearest double: literals.
#define QKV_TEN(d) 1e##d##0, 1e##d##1, 1e##d##2, 1e##d##3, 1e##d##4, 1e##d##5, 1e##d##6, 1e##d##7, 1e##d##8, 1e##d##9
#define QKV_HUNDRED(d)                                                                                     \
  QKV_TEN(d##0), QKV_TEN(d##1), QKV_TEN(d##2), QKV_TEN(d##3), QKV_TEN(d##4), QKV_TEN(d##5), QKV_TEN(d##6), \
      QKV_TEN(d##7), QKV_TEN(d##8), QKV_TEN(d##9)
constexpr std::array<double, kLargestPower + 1> kPowers = {
    QKV_HUNDRED(0), QKV_HUNDRED(1), QKV_HUNDRED(2), 1e300, 1e301, 1e302, 1e303, 1e304, 1e305, 1e306, 1e307, 1e308};
#undef QKV_HUNDRED
#undef QKV_TEN

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// digits * 10^exponent. Larger than kPowers: in steps of 308, as serde_json goes.
double scaled(std::uint64_t digits, std::int64_t exponent) {
  auto value = static_cast<double>(digits);
  for (; exponent < -kLargestPower && value != 0; exponent += kLargestPower) value /= kPowers.back();
  if (value == 0) return value;
  if (exponent > kLargestPower) return std::numeric_limits<double>::infinity();
  return exponent < 0 ? value / kPowers[static_cast<std::size_t>(-exponent)]
                      : value * kPowers[static_cast<std::size_t>(exponent)];
}

}  // namespace

double serde_number(std::string_view number) {
  constexpr std::int64_t kFarExponent = std::int64_t{1} << 40;
  std::size_t at = 0;
  const bool negative = !number.empty() && number[0] == '-';
  if (negative) ++at;
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  // False for a digit that no longer fits; later digits count as zeros.
  const auto take = [&](char c) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    if (digits > kMost / 10 || (digits == kMost / 10 && digit > kMost % 10)) return false;
    digits = 10 * digits + digit;
    return true;
  };
  while (at < number.size() && is_digit(number[at]) && take(number[at])) ++at;
  for (; at < number.size() && is_digit(number[at]); ++at) ++exponent;
  // Where a program has set a locale, the parser hands over that locale's point.
  if (at < number.size() && number[at] != 'e' && number[at] != 'E') {
    for (++at; at < number.size() && is_digit(number[at]) && take(number[at]); ++at) --exponent;
    while (at < number.size() && is_digit(number[at])) ++at;
  }
  if (at < number.size()) {
    ++at;
    const bool down = at < number.size() && number[at] == '-';
    if (at < number.size() && !is_digit(number[at])) ++at;
    std::int64_t written = 0;
    for (; at < number.size() && is_digit(number[at]); ++at) {
      if (written < kFarExponent) written = 10 * written + (number[at] - '0');
    }
    exponent += down ? -written : written;
  }
  const double value = scaled(digits, exponent);
  return negative ? -value : value;
}

}  // namespace qkv::io
