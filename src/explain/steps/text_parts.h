// Parts of text: numbers (whole ones plainly, all others with 5 decimals), characters in columns, and colours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Whether a value is a whole number, up to the rounding of a few operations in double.
bool is_whole(double value);

// "2", "0.46831", "6.03366e-06", "-inf".
std::string number_text(double value);

// `decimals` places; "0.00000", never "-0.00000".
std::string fixed_text(double value, int decimals);

// "(1 0 2)"; of more than `most` numbers, at least 3: "(0.10000 0.20000 0.30000 0.40000 ... 0.90000)". `values` is rank
// 1, f64.
std::string vector_text(const TensorView& values, std::int64_t most = 6);

// A character with the marks that combine with it.
struct TextUnit {
  std::string text;
  std::size_t columns = 1;  // 2 of wide characters
};
std::vector<TextUnit> units_of(std::string_view text);

// The units that fit, filled up with blanks to `columns`; the columns of a whole text.
std::string fitted(std::string_view text, std::size_t columns);
std::size_t columns_of(std::string_view text);

// With a Select Graphic Rendition code of ECMA-48 (https://www.ecma-international.org), "2" for dim; "" for none.
// Blanks stay as they are.
inline std::string painted(const std::string& text, std::string_view code) {
  if (code.empty() || text.find_first_not_of(' ') == std::string::npos) return text;
  return "\x1b[" + std::string(code) + "m" + text + "\x1b[0m";
}

}  // namespace qkv::inline explaining
