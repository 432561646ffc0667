// Bytes made smaller.
#pragma once

#include <string>
#include <string_view>

namespace qkv::inline explaining {

// As RFC 1950 has it, what DecompressionStream("deflate") of a browser reads. Never more than bytes.size() / 2^11 + 16
// bytes longer.
std::string deflated(std::string_view bytes);

}  // namespace qkv::inline explaining
