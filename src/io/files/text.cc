// Shows and counts text.
#include "io/files/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

namespace qkv::io {

std::string quote(std::string_view text) {
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

std::size_t size_of_first(std::string_view text) {
  utf8proc_int32_t code = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &code);
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

std::optional<std::size_t> code_points_in(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t size = size_of_first(text);
    if (size == 0) return std::nullopt;
    text.remove_prefix(size);
  }
  return count;
}

}  // namespace qkv::io
