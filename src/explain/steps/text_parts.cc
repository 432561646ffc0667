// Formats numbers, and cuts text into the columns of a terminal.
#include "explain/steps/text_parts.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "text/stages/unicode.h"

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

std::vector<TextUnit> units_of(std::string_view text) {
  std::vector<TextUnit> units;
  while (!text.empty()) {
    const auto [code, size] = text::decode_utf8(text);
    const int columns = utf8proc_charwidth(static_cast<utf8proc_int32_t>(code));
    if (columns > 0 || units.empty()) units.push_back({"", columns > 1 ? std::size_t{2} : std::size_t{1}});
    text::append_utf8(units.back().text, code);
    text.remove_prefix(size);
  }
  return units;
}

std::string fitted(std::string_view text, std::size_t columns) {
  std::string line;
  for (const TextUnit& unit : units_of(text)) {
    if (unit.columns > columns) break;
    line += unit.text;
    columns -= unit.columns;
  }
  return line + std::string(columns, ' ');
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const TextUnit& unit : units_of(text)) columns += unit.columns;
  return columns;
}

}  // namespace qkv::inline explaining
