// Looks for one tag in EXIF data, which is a TIFF file without pictures. Format: Exif 2.32 (CIPA DC-008), section 4.6.
#include <cstdint>

#include "io/pictures/picture_formats.h"

namespace qkv::io {
namespace {

constexpr std::uint32_t kUpright = 1;
constexpr std::size_t kEntrySize = 12;
constexpr std::uint32_t kOrientation = 0x0112;
constexpr std::uint32_t kShort = 3, kLong = 4;  // types of a value

// Numbers of 2 and 4 bytes in the file's order; 0 beyond the end.
class TiffNumbers {
 public:
  TiffNumbers(std::string_view bytes, bool little_endian) : bytes_(bytes), little_endian_(little_endian) {}

  std::uint32_t at(std::size_t position, std::size_t size) const {
    if (bytes_.size() < size || position > bytes_.size() - size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes_[position + (little_endian_ ? size - 1 - i : i)]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_endian_;
};

}  // namespace

int exif_orientation(std::string_view exif) {
  if (!exif.starts_with(kExifMagic)) return kUpright;
  const std::string_view tiff = exif.substr(kExifMagic.size());
  if (!tiff.starts_with("II") && !tiff.starts_with("MM")) return kUpright;
  const TiffNumbers numbers(tiff, tiff.starts_with("II"));
  if (numbers.at(2, 2) != 42) return kUpright;
  const std::size_t directory = numbers.at(4, 4);
  const std::uint32_t entries = numbers.at(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    if (numbers.at(entry, 2) != kOrientation) continue;
    const std::uint32_t type = numbers.at(entry + 2, 2), count = numbers.at(entry + 4, 4);
    if ((type != kShort && type != kLong) || count != 1) return kUpright;
    const std::uint32_t orientation = numbers.at(entry + 8, type == kShort ? 2 : 4);
    return static_cast<int>(orientation >= 1 && orientation <= 8 ? orientation : kUpright);
  }
  return kUpright;
}

}  // namespace qkv::io
