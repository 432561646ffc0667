// PNGs and JPEGs made by hand.
#pragma once

#include "io/files/byte_source.h"
#include "io/files_for_test.h"

namespace qkv::test {

inline std::string golden_picture(const std::string& name) { return QKV_TEST_DATA "/golden/pictures/" + name; }

// Numbers as bytes.
inline std::string chars(std::initializer_list<std::int64_t> numbers) {
  std::string bytes;
  for (const std::int64_t number : numbers) bytes += static_cast<char>(number);
  return bytes;
}

// 4 bytes, the largest first.
inline std::string big_endian(std::uint32_t number) { return chars({number >> 24, number >> 16, number >> 8, number}); }

inline std::string png_chunk(const std::string& kind, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size())) + kind + data + big_endian(io::crc32(kind + data));
}

// What zlib calls stored: as it is, in blocks.
inline std::string stored(std::string_view bytes) {
  std::string zlib = "\x78\x01";
  std::uint32_t a = 1, b = 0;
  for (const unsigned char byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  do {
    const std::string_view block = bytes.substr(0, 65535);
    bytes.remove_prefix(block.size());
    const std::int64_t size = std::ssize(block);
    zlib += chars({bytes.empty(), size, size >> 8, ~size, ~size >> 8}) + std::string(block);
  } while (!bytes.empty());
  return zlib + big_endian(b << 16 | a);
}

struct PngHeader {
  std::uint32_t width = 1, height = 1;
  int depth = 8, colour = 0, compression = 0, filter = 0, interlacing = 0;
};

// With these chunks behind the header.
inline std::string png(const PngHeader& header, const std::string& chunks) {
  const std::string fields =
      big_endian(header.width) + big_endian(header.height) +
      chars({header.depth, header.colour, header.compression, header.filter, header.interlacing});
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", fields) + chunks;
}

// Whole, of rows that begin with their filter.
inline std::string png_of(const PngHeader& header, std::string_view rows, const std::string& before = "") {
  return png(header, before + png_chunk("IDAT", stored(rows)) + png_chunk("IEND", ""));
}

// The frame of a JPEG: height and width in its SOF segment.
inline std::string with_jpeg_size(std::string jpeg, int height, int width) {
  const std::size_t frame = std::min(jpeg.find("\xff\xc0"), jpeg.find("\xff\xc2"));
  return jpeg.replace(frame + 5, 4, chars({height >> 8, height, width >> 8, width}));
}

inline std::string jpeg_segment(char marker, const std::string& data) {
  const std::int64_t size = std::ssize(data) + 2;
  return std::string{'\xff', marker} + chars({size >> 8, size}) + data;
}

// Gray 128 everywhere. Either table has one code, a bit of 0: for no difference of the mean, and the end of a block.
inline std::string gray_jpeg(int height, int width) {
  const std::string one_code = '\1' + std::string(16, '\0');
  const std::int64_t blocks = std::int64_t{(height + 7) / 8} * ((width + 7) / 8);
  std::string data(static_cast<std::size_t>((blocks * 2 + 7) / 8), '\0');
  if (blocks % 4 != 0) data.back() = static_cast<char>(0xff >> (blocks * 2 % 8));
  const std::string frame = chars({8, height >> 8, height, width >> 8, width, 1, 1, 0x11, 0});
  return "\xff\xd8" + jpeg_segment('\xdb', std::string(1, '\0') + std::string(64, '\1')) + jpeg_segment('\xc0', frame) +
         jpeg_segment('\xc4', std::string(1, '\0') + one_code) + jpeg_segment('\xc4', '\x10' + one_code) +
         jpeg_segment('\xda', std::string("\1\1\0\0\x3f\0", 6)) + data + "\xff\xd9";
}

}  // namespace qkv::test
