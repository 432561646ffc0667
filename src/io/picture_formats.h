// The formats of read_picture, one library behind each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

// With what files begin. A reader's source goes on behind it.
inline constexpr std::string_view kPngMagic = "\x89PN";
inline constexpr std::string_view kJpegMagic = "\xff\xd8\xff";

// u8 [height, width, 3]. FormatError beginning with `name`.
Tensor read_png(ByteSource& source, const std::string& name);
Tensor read_jpeg(ByteSource& source, const std::string& name);

// What a header claims, before memory is taken for it: FormatError beyond the limits of pictures.h, and where the
// `remaining` bytes are fewer than the least that such a picture takes.
void check_picture_size(std::int64_t width, std::int64_t height, const std::string& name);
void check_picture_bytes(std::uint64_t least, std::uint64_t remaining, const std::string& name);

}  // namespace qkv::io
