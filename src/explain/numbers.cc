// Formats numbers for the walk-through.
#include "explain/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace qkv::inline explaining {

bool is_whole(double value) { return std::abs(value - std::round(value)) <= 1e-13 * std::max(1.0, std::abs(value)); }

std::string number_text(double value) {
  const double size = std::abs(value);
  if (value == 0) return "0";
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (size >= 1e7 || size < 1e-4) return fmt::format("{:.5e}", value);
  return fixed_text(value, is_whole(value) ? 0 : 5);
}

std::string fixed_text(double value, int decimals) {
  if (!std::isfinite(value)) return number_text(value);
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  const bool negative_zero = text[0] == '-' && text.find_first_of("123456789") == std::string::npos;
  return negative_zero ? text.substr(1) : text;
}

std::string vector_text(const TensorView& values, std::int64_t most) {
  const std::int64_t count = values.size(0);
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    if (count > most && i == most - 2) {
      text += " ...";
      i = count - 1;
    }
    if (!text.empty()) text += ' ';
    text += number_text(values.at<double>({i}));
  }
  return fmt::format("({})", text);
}

}  // namespace qkv::inline explaining
