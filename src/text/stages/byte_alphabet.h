// Bytes as characters that can be seen: the alphabet of byte-level vocabularies. Printable bytes are
// themselves, the others U+0100 and on. Source: Radford et al., "Language models are unsupervised multitask learners"
// (2019).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace qkv::text {

inline constexpr std::array<char32_t, 256> kByteCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}();

inline std::optional<std::uint8_t> byte_of(char32_t character) {
  constexpr std::size_t kCharacters = 0x144;  // one more than the last of them
  static constexpr std::array<std::int16_t, kCharacters> kBytes = [] {
    std::array<std::int16_t, kCharacters> bytes{};
    bytes.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) bytes[kByteCharacters[byte]] = static_cast<std::int16_t>(byte);
    return bytes;
  }();
  if (character >= kCharacters || kBytes[character] < 0) return std::nullopt;
  return static_cast<std::uint8_t>(kBytes[character]);
}

}  // namespace qkv::text
