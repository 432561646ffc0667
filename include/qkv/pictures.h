/// \file
/// Pictures in files: PNG and JPEG, told apart by their content, as 8-bit RGB. Every byte is checked before use.
///
///     Tensor picture = read_picture("cat.jpg");  // u8 [height, width, 3]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

/// Size of a picture, a patch, or a step or margin in one, in pixels or patches.
struct PictureSize {
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const PictureSize&) const = default;
};

inline constexpr std::int64_t kMostPixels = 64'000'000;
inline constexpr std::int64_t kLongestPictureEdge = 1'000'000;

/// u8 [height, width, 3], the pixels of Pillow's ImageOps.exif_transpose and convert("RGB"):
/// - Gray becomes three equal channels, a palette its colours. Of 16 bits the upper 8 are kept, of gray ones, too,
/// which
///   Pillow cuts off at 255.
/// - Alpha and transparency are dropped without blending: colours under them show.
/// - CMYK and YCCK (JPEG) are inverted, as Adobe writes them: red = cyan * black / 255, and so on.
/// - A JPEG whose EXIF data has an orientation is turned upright. EXIF data that cannot be read has none.
/// - Gamma and colour profiles are not applied. Of an animated PNG it is the first picture.
///
/// FormatError, one line, for a file that is not PNG or JPEG, has more pixels than these, or is truncated or corrupt,
/// and for every picture if the library was built without them (QKV_PICTURES=OFF); IoError if it cannot be read.
/// Memory: the picture, a few rows, for a progressive JPEG up to 8 bytes per pixel, and less than a megabyte.
QKV_API Tensor read_picture(const std::string& path);
QKV_API Tensor parse_picture(std::string_view bytes,
                             const std::string& name);  ///< `name` stands for the file in messages

}  // namespace qkv
