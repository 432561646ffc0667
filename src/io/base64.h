// Bytes as letters: base64 (RFC 4648, section 4), padded to groups of four letters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// Letters of so many bytes.
constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }

std::string encode_base64(std::string_view bytes);
// Nothing unless the text is base64 throughout: its alphabet, padded, no bit beyond the last byte.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace qkv::io
