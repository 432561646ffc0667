// Decodes base64.
#include "io/base64.h"

#include <cstddef>
#include <cstdint>

namespace qkv::io {

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
