// Pictures: the pixels that Pillow reads, and what is refused (tests/golden/pictures/make.py made the files); reading
// costs the pixels and little more, refusing little.
#include "qkv/pictures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "io/exif.h"
#include "io/pictures_for_test.h"
#include "memory_for_test.h"
#include "qkv/files.h"
#include "sanitizers.h"

namespace qkv {
namespace {

using test::expect_equal;
using test::golden_picture;
using test::Malformed;
using test::png;
using test::png_chunk;
using test::png_of;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_picture(""))) {
    const std::string ending = entry.path().extension();
    if (ending == ".png" || ending == ".jpg") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Tensor parse(const std::string& bytes) { return parse_picture(bytes, "x"); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(Pictures, ReadsThePixelsThatPillowReads) {
  const test::TemporaryFolder folder;
  const SafeTensors pixels = read_safetensors(golden_picture("pixels.safetensors"));
  const std::vector<std::string> names = golden_names();
  ASSERT_EQ(names.size(), pixels.tensors.size());
  ASSERT_GE(names.size(), 60u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string bytes = test::slurp(golden_picture(name));
    expect_equal(parse(bytes), pixels.tensors.at(name));
    // The content tells the kind, whatever the ending says.
    expect_equal(read_picture(folder.put(name.ends_with(".png") ? "a.jpg" : "a.png", bytes)), pixels.tensors.at(name));
  }
  EXPECT_THROW(read_picture(folder / "none.png"), IoError);
  EXPECT_THROW(read_picture(folder / ""), IoError);
}

TEST(Pictures, TurnsEachOrientationUpright) {
  // Where pixel [y, x] of a stored picture goes, by orientation, after the table of the EXIF standard.
  const std::string jpeg = test::slurp(golden_picture("orientation_1.jpg"));
  const Tensor stored = parse(jpeg);
  const std::int64_t height = stored.size(0), width = stored.size(1);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    // orientation_1.jpg has big-endian EXIF data.
    const Tensor upright = parse(replaced(jpeg, std::string("\1\x12\0\3\0\0\0\1\0\1", 10),
                                          std::string("\1\x12\0\3\0\0\0\1\0", 9) + static_cast<char>(orientation)));
    const bool on_its_side = orientation > 4;
    ASSERT_EQ(upright.shape(), on_its_side ? (Dims{width, height, 3}) : (Dims{height, width, 3}));
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t down = height - 1 - y, right = width - 1 - x;
        const Dims places[] = {{y, x, 0}, {y, right, 0}, {down, right, 0}, {down, x, 0},
                               {x, y, 0}, {x, down, 0},  {right, down, 0}, {right, y, 0}};
        EXPECT_EQ(upright.view().at<std::uint8_t>(places[orientation - 1]), stored.view().at<std::uint8_t>({y, x, 0}));
      }
    }
  }
}

TEST(Pictures, OrientationOfExifDataThatIsOdd) {
  const std::string magic(io::kExifMagic);
  const auto tiff = [&](const std::string& entry) {
    return magic + std::string("MM\0\x2a\0\0\0\x8\0\1", 10) + entry + std::string(4, '\0');
  };
  const auto entry = [](const std::string& rest) { return std::string("\1\x12", 2) + rest; };
  const std::pair<std::string, int> cases[] = {
      {tiff(entry(std::string("\0\3\0\0\0\1\0\6\0\0", 10))), 6},
      {tiff(entry(std::string("\0\4\0\0\0\1\0\0\0\6", 10))), 6},
      {tiff(entry(std::string("\0\2\0\0\0\1\0\0\0\6", 10))), 1},         // a text
      {tiff(entry(std::string("\0\3\0\0\0\2\0\6\0\0", 10))), 1},         // two numbers
      {tiff(entry(std::string("\0\3\0\0\0\1\0\x9\0\0", 10))), 1},        // beyond 8
      {tiff(entry(std::string("\0\4\0\0\0\1\0\1\0\6", 10))), 1},         // 65542
      {magic + std::string("MM\0\x2b\0\0\0\x8\0\1", 10), 1},             // no TIFF
      {magic + std::string("MM\0\x2a\xff\xff\xff\xff\xff\xff", 10), 1},  // a directory beyond
      {"Exif", 1}};
  for (const auto& [exif, orientation] : cases) EXPECT_EQ(io::exif_orientation(exif), orientation);
  for (std::size_t length = 0; length < 16 + 10; ++length) {
    EXPECT_EQ(io::exif_orientation(cases[0].first.substr(0, length)), 1);
  }
}

TEST(Pictures, TheFirstExifSegmentCounts) {
  const std::string jpeg = test::slurp(golden_picture("rgb_444.jpg"));
  const auto exif = [](char orientation) {
    return test::jpeg_segment('\xe1', std::string(io::kExifMagic) +
                                          std::string("II\x2a\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18) + orientation +
                                          std::string(7, '\0'));
  };
  const std::string other = test::jpeg_segment('\xe1', "http://ns.adobe.com/xap/1.0/");
  const Tensor turned = parse(jpeg.substr(0, 2) + other + exif(6) + exif(1) + jpeg.substr(2));
  EXPECT_EQ(turned.shape(), (Dims{parse(jpeg).size(1), parse(jpeg).size(0), 3}));
  expect_equal(turned, parse(jpeg.substr(0, 2) + exif(6) + jpeg.substr(2)));
}

TEST(Pictures, BytesOutsideAreNotRead) {
  for (const char* name : {"rgb8.png", "rgb_444.jpg"}) {
    const std::string bytes = test::slurp(golden_picture(name));
    expect_equal(parse(bytes + "more"), parse(bytes));
  }
  const std::string gray = test::gray_jpeg(64, 64);
  EXPECT_EQ(test::values_of(parse(gray)), std::vector<double>(64 * 64 * 3, 128));
  const std::size_t frame = gray.find("\xff\xc0");
  expect_equal(parse(gray.substr(0, frame) + "ab" + gray.substr(frame)), parse(gray));
}

TEST(Pictures, LongNotesArePassedOver) {
  const std::string notes = std::string(9'000'000, 'x');
  const Tensor gray = Tensor::of<std::uint8_t>({1, 1, 3}, {7, 7, 7});
  for (const char* kind : {"tEXt", "iCCP", "eXIf", "qkVs"}) {
    expect_equal(parse(png_of({}, std::string("\0\7", 2), png_chunk(kind, notes))), gray);
  }
  std::string segments;
  for (int i = 0; i < 150; ++i) segments += test::jpeg_segment('\xe2', std::string(65533, 'x'));
  const std::string jpeg = test::gray_jpeg(8, 8);
  expect_equal(parse(jpeg.substr(0, 2) + segments + jpeg.substr(2)), parse(jpeg));
}

TEST(Pictures, RefusesEveryBrokenRule) {
  const std::string jpeg = test::slurp(golden_picture("gray.jpg")), gray = test::gray_jpeg(8, 8);
  const std::string progressive = test::slurp(golden_picture("rgb_420_progressive.jpg"));
  // The frame and the scan of a gray picture with two components.
  const std::string two = replaced(replaced(gray, std::string("\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0", 13),
                                            std::string("\xff\xc0\0\x0e\x08\0\x08\0\x08\2\1\x11\0\2\x11\0", 16)),
                                   std::string("\xff\xda\0\x08\1\1\0", 7), std::string("\xff\xda\0\x0a\2\1\0\2\0", 9));
  const std::string large = test::gray_jpeg(64, 64);
  std::vector<Malformed> files = {
      {"", "not a picture: neither PNG nor JPEG"},
      {"\xff\xd8", "not a picture"},
      {"GIF89a", "not a picture"},
      {"\x89PN", "PNG: the file is cut"},
      {"\x89PNG\n\x1a\n" + std::string(30, '\0'), "PNG: "},
      {jpeg.substr(0, 3), "JPEG: the file is cut"},
      {png({.width = 0}, ""), "PNG: "},
      {png({.depth = 3}, ""), "PNG: "},
      {png({.colour = 1}, ""), "PNG: "},
      {png({.depth = 16, .colour = 3}, ""), "PNG: "},
      {png({.compression = 1}, ""), "PNG: "},
      {png({.filter = 1}, ""), "PNG: "},
      {png({.interlacing = 2}, ""), "PNG: "},
      {png({}, png_chunk("IEND", "")), "PNG: "},
      {png_of({.colour = 3}, std::string(2, '\0')), "PNG: IDAT: Missing PLTE before IDAT"},
      {png_of({.height = 2}, std::string(2, '\0')), "PNG: "},
      {png_of({.width = 2}, std::string("\0\1\2", 3)).replace(41, 2, "\x79\x01"), "PNG: "},
      {png_of({.width = 3, .depth = 2, .colour = 3}, std::string("\0\x18", 2), png_chunk("PLTE", "abcdef")),
       "PNG: row 0, column 2: colour 2 of a palette of 2"},
      {replaced(test::slurp(golden_picture("rgb8.png")), "IDAT", "IDAU"), "PNG: "},
      {test::with_jpeg_size(jpeg, 0, 5), "JPEG: "},
      {test::with_jpeg_size(jpeg, 5, 0), "JPEG: "},
      {replaced(jpeg, "\xff\xc0", "\xff\xc9"), "JPEG: arithmetic coding is not supported"},
      {replaced(jpeg, "\xff\xc0", "\xff\xc3"), "JPEG: "},
      {replaced(jpeg, std::string("\xff\xc0\0\x0b\x08", 5), std::string("\xff\xc0\0\x0b\x0c", 5)), "JPEG: "},
      {replaced(jpeg, std::string("\1\1\x11\0", 4), std::string("\2\1\x11\0", 4)), "JPEG: "},
      {"\xff\xd8" + test::jpeg_segment('\xe1', "").replace(3, 1, "\1"), "JPEG: a segment of fewer than 2 bytes"},
      {two, "JPEG: 2 components; 1, 3 and 4 are supported"},
      // A restart marker that is not the next one, and bits that end before the picture does.
      {replaced(test::slurp(golden_picture("rgb_restart.jpg")), "\xff\xd1", "\xff\xd5"), "JPEG: Corrupt JPEG data"},
      {large.substr(0, large.size() - 6) + "\xff\xd9", "premature end of data"},
      // Too many pixels, by the header; then more than the bytes can hold.
      {png({.width = 8001, .height = 8000}, png_chunk("IDAT", "")),
       "8001 x 8000 pixels; at most 64000000 in all and 1000000 along an edge are read"},
      {png({.width = 1'000'001, .height = 1}, png_chunk("IDAT", "")), "1000001 x 1 pixels; at most"},
      {png({.width = 1, .height = 0x7fffffff}, png_chunk("IDAT", "")), "1 x 2147483647 pixels; at most"},
      {test::with_jpeg_size(progressive, 65500, 978), "978 x 65500 pixels; at most"},
      {png({.width = 8000, .height = 8000, .colour = 2}, png_chunk("IDAT", "ab")),
       "the pixels take 186046 bytes at least, but"},
  };
  for (const char* name : {"gray.jpg", "rgb_420.jpg", "rgb_420_progressive.jpg", "cmyk.jpg"}) {
    files.push_back({test::with_jpeg_size(test::slurp(golden_picture(name)), 8000, 8000),
                     "the pixels take 125000 bytes at least, but"});
  }
  test::expect_refused(files, "bad.png", read_picture);
}

TEST(Pictures, RefusesTruncationAtEveryByte) {
  for (const std::string& name : golden_names()) {
    const std::string bytes = test::slurp(golden_picture(name));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(parse(bytes.substr(0, length)), FormatError) << name << " " << length;
    }
  }
}

TEST(Pictures, RandomFaultsAreReadOrRefusedInSilence) {
  std::mt19937 random(3);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  int refused = 0, read = 0;
  for (const std::string& name : golden_names()) {
    const std::string bytes = test::slurp(golden_picture(name));
    for (int i = 0; i < 60; ++i) {
      std::string broken = bytes;
      for (unsigned faults = random() % 3 + 1; faults > 0; --faults) {
        const std::size_t at = random() % broken.size();
        const unsigned kind = random() % 3;
        if (kind == 0) broken[at] = static_cast<char>(random());
        if (kind == 1) broken.erase(at, random() % 4);
        if (kind == 2) broken.insert(at, 1 + random() % 4, static_cast<char>(random()));
      }
      try {
        const Tensor picture = parse(broken);
        EXPECT_LE(picture.size(0) * picture.size(1), kMostPixels);
        EXPECT_EQ(picture.size(2), 3);
        ++read;
      } catch (const FormatError& error) {
        const std::string message = error.what();
        EXPECT_TRUE(message.starts_with("x: ")) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_LT(message.size(), 300u);
        ++refused;
      }
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 100);
}

TEST(Pictures, EndlessScansAreRefused) {
  // gray_jpeg with three components, a scan for each.
  const std::string gray = test::gray_jpeg(8, 8);
  const std::size_t scan = gray.find("\xff\xda");
  const std::string start = replaced(gray.substr(0, scan), std::string("\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0", 13),
                                     std::string("\xff\xc0\0\x11\x08\0\x08\0\x08\3\1\x11\0\2\x11\0\3\x11\0", 19));
  const auto with_scans = [&](int count) {
    std::string jpeg = start;
    for (int i = 0; i < count; ++i) {
      jpeg += replaced(gray.substr(scan, gray.size() - 2 - scan), std::string("\1\1\0", 3),
                       std::string("\1", 1) + static_cast<char>(1 + i % 3) + std::string(1, '\0'));
    }
    return jpeg + "\xff\xd9";
  };
  for (const int count : {3, 99}) EXPECT_EQ(test::values_of(parse(with_scans(count))), std::vector<double>(192, 128));
  EXPECT_EQ(test::message_of<FormatError>([&] { parse(with_scans(102)); }), "x: JPEG: more than 100 scans");
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

// A heap that earlier tests filled and freed is no part of what a call costs.
TEST(PicturesMemory, IsMeasuredWithoutWhatWasFreedBefore) {
  std::vector<std::string> pieces;
  for (int i = 0; i < 64 * 1024; ++i) pieces.emplace_back(1000, 'x');
  const std::string last = std::move(pieces.back());  // above the others, so that the heap cannot shrink
  pieces.clear();
  EXPECT_LE(test::cost([] { return 0; }).peak, 4 * test::kMebibyte);
}

TEST(PicturesMemory, ThePixelsOnce) {
  constexpr std::int64_t kEdge = 3072;
  // Beside the pixels: what else is read, and what the large pages at their ends hold of other blocks, or of none.
  constexpr std::int64_t kBeside = 4 * test::kMebibyte, kLargePages = 2 * 2 * test::kMebibyte;
  const test::TemporaryFolder folder;
  std::string row(kEdge * 3 + 1, '\x55');
  row[0] = '\0';
  std::string rows;
  for (std::int64_t y = 0; y < kEdge; ++y) rows += row;
  const std::string paths[] = {folder.put("a.png", png_of({.width = kEdge, .height = kEdge, .colour = 2}, rows)),
                               folder.put("a.jpg", test::gray_jpeg(kEdge, kEdge))};
  for (const std::string& path : paths) {
    const test::Memory added = test::cost([&] { return read_picture(path); });
    EXPECT_GE(added.resident, kEdge * kEdge * 3);
    EXPECT_LE(added.peak, kEdge * kEdge * 3 + kBeside + kLargePages) << path;
  }
}

TEST(PicturesMemory, NothingForAHeaderAlone) {
  const std::string jpeg = test::slurp(golden_picture("rgb_420_progressive.jpg"));
  const std::string exif = test::jpeg_segment('\xe1', std::string(io::kExifMagic) + std::string(65527, 'x'));
  std::string segments = "\xff\xd8";
  for (int i = 0; i < 400; ++i) segments += exif;
  std::string texts;
  for (int i = 0; i < 400; ++i) texts += png_chunk("tEXt", "a" + std::string(1, '\0') + std::string(65533, 'x'));
  const std::string files[] = {png({.width = 8000, .height = 8000, .colour = 2}, png_chunk("IDAT", "")),
                               png({.width = 60000, .height = 60000, .colour = 2}, png_chunk("IDAT", "")),
                               png({}, texts),
                               test::with_jpeg_size(jpeg, 8000, 8000),
                               test::with_jpeg_size(jpeg, 60000, 60000),
                               segments};
  for (const std::string& file : files) {
    const test::Memory added = test::cost([&] {
      EXPECT_THROW(parse_picture(file, "x"), FormatError);
      return 0;
    });
    EXPECT_LE(added.peak, 16 * test::kMebibyte);  // most of it pages of the program that throwing reads
  }
}

#endif

}  // namespace
}  // namespace qkv
