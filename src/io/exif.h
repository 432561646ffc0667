// The orientation in the EXIF data of a photograph.
#pragma once

#include <string_view>

namespace qkv::io {

inline constexpr std::string_view kExifMagic("Exif\0\0", 6);

// Tag 0x0112 of the first directory, 1 to 8; 1, upright, where there is none or the data cannot be read. `exif` is what
// an APP1 segment holds, kExifMagic first.
int exif_orientation(std::string_view exif);

}  // namespace qkv::io
