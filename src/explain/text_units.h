// Text in the columns of a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qkv::inline explaining {

// A character with the marks that combine with it.
struct TextUnit {
  std::string text;
  std::size_t columns = 1;  // 2 of wide characters
};
std::vector<TextUnit> units_of(std::string_view text);

// As many units as fit, and blanks up to `columns`; `columns` of them all.
std::string fitted(std::string_view text, std::size_t columns);
std::size_t columns_of(std::string_view text);

}  // namespace qkv::inline explaining
