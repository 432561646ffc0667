// Bytes as text (RFC 4648, section 4).
#pragma once

#include <string>
#include <string_view>

namespace qkv::inline explaining {

void append_base64(std::string& text, std::string_view bytes);

constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }

}  // namespace qkv::inline explaining
