// Bytes written as base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// Nothing unless the text is base64 throughout: its alphabet, padded to groups of four, no bit beyond the last byte.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace qkv::io
