// Splits text into what a terminal shows as one character.
#include "explain/text_units.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode.h"

namespace qkv::inline explaining {

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
