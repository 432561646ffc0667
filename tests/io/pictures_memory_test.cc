// What reading a picture costs: its pixels, and little more; one that is refused, little.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "io/picture_formats.h"
#include "io/pictures_for_test.h"
#include "memory_for_test.h"
#include "qkv/pictures.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv {
namespace {

using test::cost;
using test::kMebibyte;

// A heap that earlier tests filled and freed is no part of what a call costs.
TEST(PicturesMemory, IsMeasuredWithoutWhatWasFreedBefore) {
  std::vector<std::string> pieces;
  for (int i = 0; i < 64 * 1024; ++i) pieces.emplace_back(1000, 'x');
  const std::string last = std::move(pieces.back());  // above the others, so that the heap cannot shrink
  pieces.clear();
  EXPECT_LE(cost([] { return 0; }).peak, 4 * kMebibyte);
}

TEST(PicturesMemory, ThePixelsOnce) {
  constexpr std::int64_t kEdge = 4096;
  // Beside the pixels: what else is read, and what the large pages at their ends hold of other blocks, or of none.
  constexpr std::int64_t kBeside = 4 * kMebibyte, kLargePages = 2 * 2 * kMebibyte;
  const test::TemporaryFolder folder;
  std::string row(kEdge * 3 + 1, '\x55');
  row[0] = '\0';
  std::string rows;
  for (std::int64_t y = 0; y < kEdge; ++y) rows += row;
  const std::string paths[] = {folder.put("a.png", test::png_of({.width = kEdge, .height = kEdge, .colour = 2}, rows)),
                               folder.put("a.jpg", test::gray_jpeg(kEdge, kEdge))};
  for (const std::string& path : paths) {
    const test::Memory added = cost([&] { return read_picture(path); });
    EXPECT_GE(added.resident, kEdge * kEdge * 3);
    EXPECT_LE(added.peak, kEdge * kEdge * 3 + kBeside + kLargePages) << path;
  }
}

TEST(PicturesMemory, NothingForAHeaderAlone) {
  const std::string jpeg = test::slurp(test::golden_picture("rgb_420_progressive.jpg"));
  const std::string exif = test::jpeg_segment('\xe1', std::string(io::kExifMagic) + std::string(65527, 'x'));
  std::string segments = "\xff\xd8";
  for (int i = 0; i < 400; ++i) segments += exif;
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += test::png_chunk("tEXt", "a" + std::string(1, '\0') + std::string(65533, 'x'));
  const std::string files[] = {test::png({.width = 8000, .height = 8000, .colour = 2}, test::png_chunk("IDAT", "")),
                               test::png({.width = 60000, .height = 60000, .colour = 2}, test::png_chunk("IDAT", "")),
                               test::png({}, texts),
                               test::with_jpeg_size(jpeg, 8000, 8000),
                               test::with_jpeg_size(jpeg, 60000, 60000),
                               segments};
  for (const std::string& file : files) {
    const test::Memory added = cost([&] {
      EXPECT_THROW(parse_picture(file, "x"), FormatError);
      return 0;
    });
    EXPECT_LE(added.peak, 16 * kMebibyte);  // most of it pages of the program that throwing reads
  }
}

}  // namespace
}  // namespace qkv

#endif  // QKV_SANITIZED
