#include "explain/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace qkv {

bool is_whole(double value) { return std::abs(value - std::round(value)) <= 1e-13 * std::max(1.0, std::abs(value)); }

std::string number_text(double value) {
  const double size = std::abs(value);
  if (value == 0) return "0";
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (size >= 1e7 || size < 1e-4) return fmt::format("{:.5e}", value);
  return is_whole(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.5f}", value);
}

std::string vector_text(const TensorView& values) {
  constexpr std::int64_t kMost = 6, kFirst = 4;
  const std::int64_t count = values.size(0);
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    if (count > kMost && i == kFirst) {
      text += " ...";
      i = count - 1;
    }
    if (!text.empty()) text += ' ';
    text += number_text(values.at<double>({i}));
  }
  return fmt::format("({})", text);
}

}  // namespace qkv
