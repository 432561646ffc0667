// Tells PNG from JPEG by the first bytes.
#include "qkv/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/pictures/picture_formats.h"
#include "qkv/error.h"

namespace qkv {
namespace io {
namespace {

Tensor read_picture(ByteSource& source, const std::string& name) {
  static_assert(kPngMagic.size() == kJpegMagic.size());
  std::array<char, kPngMagic.size()> start{};
  if (source.remaining() >= start.size()) source.read(start.data(), start.size());
  const std::string_view magic(start.data(), start.size());
  if (magic == kPngMagic) return read_png(source, name);
  if (magic == kJpegMagic) return read_jpeg(source, name);
  throw FormatError(name + ": not a PNG or JPEG file");
}

}  // namespace

void check_picture_size(std::int64_t width, std::int64_t height, const std::string& name) {
  if (std::max(width, height) > kLongestPictureEdge || width * height > kMostPixels) {
    throw FormatError(fmt::format("{}: {} x {} pixels; at most {} in all and {} along an edge are read", name, width,
                                  height, kMostPixels, kLongestPictureEdge));
  }
}

void check_picture_bytes(std::uint64_t least, std::uint64_t remaining, const std::string& name) {
  if (remaining < least) {
    throw FormatError(fmt::format("{}: the pixels take {} bytes at least, but {} are left", name, least, remaining));
  }
}

}  // namespace io

Tensor read_picture(const std::string& path) {
  io::FileSource source(path);
  return io::read_picture(source, path);
}

Tensor parse_picture(std::string_view bytes, const std::string& name) {
  io::MemorySource source(bytes);
  return io::read_picture(source, name);
}

}  // namespace qkv
