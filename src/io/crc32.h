// CRC-32 of ISO-HDLC (zip, PNG): tells whether bytes are still those that were written. No defence against intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace qkv::io {

// Of bytes that follow those whose checksum is `before`.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace qkv::io
