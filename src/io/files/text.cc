// Shows, counts and decodes text.
#include "io/files/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdint>

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

std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;  // those of the letters so far that are in no byte yet, at the end
  int waiting = 0;
  for (const char letter : text) {
    const std::size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFF;
    waiting += 6;
    if (waiting < 8) continue;
    waiting -= 8;
    bytes.push_back(static_cast<char>(bits >> waiting & 0xFF));
  }
  if ((bits & ((1u << waiting) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace qkv::io
