// Text from a file as it appears in messages: in quotes, on one line, in ASCII, clipped.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace qkv::io {

inline std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string quoted = "\"";
  for (const unsigned char c : text.substr(0, kLongest)) {
    if (c == '"' || c == '\\') {
      quoted += fmt::format("\\{}", static_cast<char>(c));
    } else if (c < 0x20 || c > 0x7e) {
      quoted += fmt::format("\\x{:02x}", c);
    } else {
      quoted += static_cast<char>(c);
    }
  }
  return quoted + (text.size() > kLongest ? "\"..." : "\"");
}

}  // namespace qkv::io
