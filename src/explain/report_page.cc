// Writes bytes as letters, three or four at a time.
#include "explain/report_page.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace qkv::inline explaining {

void append_base64(std::string& text, std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  text.reserve(text.size() + base64_size(bytes.size()));
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
    }
  }
}

void append_base85(std::string& text, std::string_view bytes) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&,>()[]{}@%$#";
  static_assert(kLetters.size() == 85);
  text.reserve(text.size() + (bytes.size() + 3) / 4 * 5);
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const std::size_t count = std::min<std::size_t>(4, bytes.size() - i);
    std::uint32_t four = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      four = four << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    }
    std::array<char, 5> letters{};
    for (std::size_t k = 5; k-- > 0; four /= 85) letters[k] = kLetters[four % 85];
    text.append(letters.data(), count + 1);
  }
}

}  // namespace qkv::inline explaining
