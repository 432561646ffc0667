// Every occurrence of a string in a text, from left to right, replaced by another.
#pragma once

#include <string>
#include <string_view>

namespace qkv::text {

// `from` is not empty.
inline std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace qkv::text
