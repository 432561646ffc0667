// The formats of read_picture, one library behind each, and the orientation of photographs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/files/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

// With what files begin. A reader's source goes on behind it.
inline constexpr std::string_view kPngMagic = "\x89PN";
inline constexpr std::string_view kJpegMagic = "\xff\xd8\xff";

// u8 [height, width, 3]. FormatError beginning with `name`.
Tensor read_png(ByteSource& source, const std::string& name);
Tensor read_jpeg(ByteSource& source, const std::string& name);

// Checks the sizes in a header before allocating memory: FormatError beyond the limits of pictures.h, and where the
// `remaining` bytes are fewer than the least that such a picture takes.
void check_picture_size(std::int64_t width, std::int64_t height, const std::string& name);
void check_picture_bytes(std::uint64_t least, std::uint64_t remaining, const std::string& name);

// The orientation in the EXIF data of a photograph.
inline constexpr std::string_view kExifMagic("Exif\0\0", 6);

// Tag 0x0112 of the first directory, 1 to 8; 1, upright, where there is none or the data cannot be read. `exif` is what
// an APP1 segment holds, kExifMagic first.
int exif_orientation(std::string_view exif);

}  // namespace qkv::io
