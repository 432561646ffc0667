// Text in the colours of a terminal.
#pragma once

#include <string>
#include <string_view>

namespace qkv::inline explaining {

// With a Select Graphic Rendition code of ECMA-48 (https://www.ecma-international.org), "2" for dim; "" for none.
// Blanks stay as they are.
inline std::string painted(const std::string& text, std::string_view code) {
  if (code.empty() || text.find_first_not_of(' ') == std::string::npos) return text;
  return "\x1b[" + std::string(code) + "m" + text + "\x1b[0m";
}

}  // namespace qkv::inline explaining
