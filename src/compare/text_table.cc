// Aligns columns, and draws in lines of text.
#include "compare/text_table.h"

#include <algorithm>
#include <cmath>

namespace qkv::comparison {
namespace {

// Of UTF-8: bytes that do not continue a character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - width_of(row[i]), ' ');
      line += i == 0 ? "  " + row[i] + blanks : "  " + blanks + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string sparkline(const std::vector<double>& shares) {
  std::string line;
  for (const double share : shares) {
    if (std::isnan(share)) {
      line += ' ';
      continue;
    }
    // U+2581 to U+2588.
    const auto eighth = std::clamp(std::lround(share * 8), 1l, 8l);
    line += "\xe2\x96";
    line += static_cast<char>(0x80 + eighth);
  }
  return line;
}

}  // namespace qkv::comparison
