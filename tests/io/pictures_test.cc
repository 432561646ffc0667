// Pictures: the pixels that Pillow reads (golden/pictures/make.py made the files), what is refused, what both cost.
#include "qkv/pictures.h"

#include "io/pictures/picture_formats.h"
#include "io/pictures_for_test.h"
#include "memory_for_test.h"
#include "qkv/random.h"
#include "sanitizers.h"

namespace qkv::test {
namespace {

using std::string_literals::operator""s;

// By the names of the pictures.
const std::map<std::string, Tensor>& golden_pixels() {
  static const SafeTensors pixels = read_safetensors(golden_picture("pixels.safetensors"));
  return pixels.tensors;
}

Tensor parse(const std::string& bytes) { return parse_picture(bytes, "x"); }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(Pictures, ReadsThePixelsThatPillowReads) {
  const TemporaryFolder folder;
  ASSERT_GE(golden_pixels().size(), 60u);
  for (const auto& [name, pixels] : golden_pixels()) {
    SCOPED_TRACE(name);
    const std::string bytes = slurp(golden_picture(name));
    expect_equal(parse(bytes), pixels);
    expect_equal(parse(bytes + "more"), pixels);  // is not read
    // The content tells the kind, whatever the ending says.
    expect_equal(read_picture(folder.put(name.ends_with(".png") ? "a.jpg" : "a.png", bytes)), pixels);
  }
  EXPECT_THROW(read_picture(folder / "none.png"), IoError);
  EXPECT_THROW(read_picture(folder / ""), IoError);
}

// Where pixel [y, x] of a stored picture goes, by orientation, after the table of the EXIF standard.
TEST(Pictures, TurnsEachOrientationUpright) {
  const std::string jpeg = slurp(golden_picture("orientation_1.jpg"));  // whose EXIF data is big-endian
  const Tensor stored = parse(jpeg);
  const std::int64_t height = stored.size(0), width = stored.size(1);
  for (char orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(+orientation);
    const std::string entry = "\1\x12\0\3\0\0\0\1\0"s;
    const Tensor upright = parse(replaced(jpeg, entry + '\1', entry + orientation));
    ASSERT_EQ(upright.shape(), orientation > 4 ? (Dims{width, height, 3}) : (Dims{height, width, 3}));
    for (std::int64_t at = 0; at < height * width; ++at) {
      const std::int64_t y = at / width, x = at % width, down = height - 1 - y, right = width - 1 - x;
      const Dims places[] = {{y, x, 0}, {y, right, 0}, {down, right, 0}, {down, x, 0},
                             {x, y, 0}, {x, down, 0},  {right, down, 0}, {right, y, 0}};
      EXPECT_EQ(upright.view().at<std::uint8_t>(places[orientation - 1]), stored.view().at<std::uint8_t>({y, x, 0}));
    }
  }
}

TEST(Pictures, OrientationOfExifDataThatIsOdd) {
  const std::string magic(io::kExifMagic);
  const auto tiff = [&](const std::string& entry) {
    return magic + "MM\0\x2a\0\0\0\x8\0\1\1\x12"s + entry + std::string(4, '\0');
  };
  std::string none = tiff("\0\3\0\0\0\1\0\6\0\0"s);
  none[magic.size() + 9] = 0;
  const std::pair<std::string, int> cases[] = {{tiff("\0\3\0\0\0\1\0\6\0\0"s), 6},
                                               {tiff("\0\4\0\0\0\1\0\0\0\6"s), 6},
                                               {tiff("\0\2\0\0\0\1\0\0\0\6"s), 1},                // a text
                                               {tiff("\0\3\0\0\0\2\0\6\0\0"s), 1},                // two numbers
                                               {tiff("\0\3\0\0\0\1\0\x9\0\0"s), 1},               // beyond 8
                                               {tiff("\0\4\0\0\0\1\0\1\0\6"s), 1},                // 65542
                                               {none, 1},                                         // behind 0 entries
                                               {magic + "MM\0\x2b\0\0\0\x8\0\1"s, 1},             // no TIFF
                                               {magic + "MM\0\x2a\xff\xff\xff\xff\xff\xff"s, 1},  // a directory beyond
                                               {"Exif", 1}};
  for (const auto& [exif, orientation] : cases) EXPECT_EQ(io::exif_orientation(exif), orientation);
  for (std::size_t length = 0; length < 16 + 10; ++length) {
    EXPECT_EQ(io::exif_orientation(cases[0].first.substr(0, length)), 1);
  }
}

TEST(Pictures, OtherSegmentsArePassedOver) {
  const std::string jpeg = slurp(golden_picture("rgb_444.jpg")), gray = gray_jpeg(64, 64);
  const auto with = [](const std::string& picture, const std::string& segments) {
    return parse(picture.substr(0, 2) + segments + picture.substr(2));
  };
  const auto exif = [](char orientation) {
    const std::string entry = "II\x2a\0\x8\0\0\0\1\0\x12\1\3\0\1\0\0\0"s + orientation + std::string(7, '\0');
    return jpeg_segment('\xe1', std::string(io::kExifMagic) + entry);
  };
  const Tensor turned = with(jpeg, jpeg_segment('\xe1', "http://ns.adobe.com/xap/1.0/") + exif(6) + exif(1));
  EXPECT_EQ(turned.shape(), (Dims{parse(jpeg).size(1), parse(jpeg).size(0), 3}));
  expect_equal(turned, with(jpeg, exif(6)));  // the first one counts
  EXPECT_EQ(values_of(parse(gray)), std::vector<double>(64 * 64 * 3, 128));
  const std::size_t frame = gray.find("\xff\xc0");
  expect_equal(parse(gray.substr(0, frame) + "ab" + gray.substr(frame)), parse(gray));
  const std::string notes(9'000'000, 'x');
  for (const char* kind : {"tEXt", "iCCP", "eXIf", "qkVs"}) {
    EXPECT_EQ(values_of(parse(png_of({}, "\0\7"s, png_chunk(kind, notes)))), std::vector<double>(3, 7));
  }
  std::string segments;
  for (int i = 0; i < 150; ++i) segments += jpeg_segment('\xe2', notes.substr(0, 65533));
  expect_equal(with(gray, segments), parse(gray));
}

// A gray JPEG with a frame of other components, and scans of one of them each, in turn.
std::string with_components(const std::string& frame, int scans) {
  const std::string gray = gray_jpeg(8, 8);
  const std::size_t scan = gray.find("\xff\xda");
  std::string jpeg = replaced(gray.substr(0, scan), "\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0"s, frame);
  for (int i = 0; i < scans; ++i) {
    const std::string selector = "\1"s + static_cast<char>(1 + i % 3) + '\0';
    jpeg += replaced(gray.substr(scan, gray.size() - 2 - scan), "\1\1\0"s, selector);
  }
  return jpeg + "\xff\xd9";
}

TEST(Pictures, RefusesEveryBrokenRule) {
  const auto large_png = [](std::uint32_t width, std::uint32_t height, const std::string& data = "") {
    return png({.width = width, .height = height, .colour = 2}, png_chunk("IDAT", data));
  };
  const auto large_jpeg = [](const char* name, int height, int width) {
    return with_jpeg_size(slurp(golden_picture(name)), height, width);
  };
  const std::string jpeg = slurp(golden_picture("gray.jpg")), gray = gray_jpeg(64, 64);
  const std::string three = "\xff\xc0\0\x11\x08\0\x08\0\x08\3\1\x11\0\2\x11\0\3\x11\0"s;
  for (const int scans : {3, 99}) {
    EXPECT_EQ(values_of(parse(with_components(three, scans))), std::vector<double>(192, 128));
  }
  const Refusals refusals = {
      {"not a PNG or JPEG file", {"", "\xff\xd8", "GIF89a"}},
      {"PNG: the file is cut", {"\x89PN"}},
      {"JPEG: the file is cut", {jpeg.substr(0, 3)}},
      {"PNG: ",
       {"\x89PNG\n\x1a\n" + std::string(30, '\0'), png({.width = 0}, ""), png({.depth = 3}, ""), png({.colour = 1}, ""),
        png({.depth = 16, .colour = 3}, ""), png({.compression = 1}, ""), png({.filter = 1}, ""),
        png({.interlacing = 2}, ""), png({}, png_chunk("IEND", "")), png_of({.height = 2}, std::string(2, '\0')),
        png_of({.width = 2}, "\0\1\2"s).replace(41, 2, "\x79\x01"),
        replaced(slurp(golden_picture("rgb8.png")), "IDAT", "IDAU")}},
      {"PNG: IDAT: Missing PLTE before IDAT", {png_of({.colour = 3}, std::string(2, '\0'))}},
      {"PNG: row 0, column 2: colour 2 of a palette of 2",
       {png_of({.width = 3, .depth = 2, .colour = 3}, "\0\x18"s, png_chunk("PLTE", "abcdef"))}},
      {"JPEG: ",
       {with_jpeg_size(jpeg, 0, 5), with_jpeg_size(jpeg, 5, 0), replaced(jpeg, "\xff\xc0", "\xff\xc3"),
        replaced(jpeg, "\xff\xc0\0\x0b\x08"s, "\xff\xc0\0\x0b\x0c"s), replaced(jpeg, "\1\1\x11\0"s, "\2\1\x11\0"s)}},
      {"JPEG: arithmetic coding is not supported", {replaced(jpeg, "\xff\xc0", "\xff\xc9")}},
      {"JPEG: a segment of fewer than 2 bytes", {"\xff\xd8" + jpeg_segment('\xe1', "").replace(3, 1, "\1")}},
      {"JPEG: 2 components; 1, 3 and 4 are supported",
       {with_components("\xff\xc0\0\x0e\x08\0\x08\0\x08\2\1\x11\0\2\x11\0"s, 2)}},
      {"JPEG: more than 100 scans", {with_components(three, 102)}},
      // A restart marker that is not the next one, and bits that end before the picture does.
      {"JPEG: Corrupt JPEG data", {replaced(slurp(golden_picture("rgb_restart.jpg")), "\xff\xd1", "\xff\xd5")}},
      {"premature end of data", {gray.substr(0, gray.size() - 6) + "\xff\xd9"}},
      // Too many pixels, by the header; then more than the bytes can hold.
      {"8001 x 8000 pixels; at most 64000000 in all and 1000000 along an edge are read", {large_png(8001, 8000)}},
      {"1000001 x 1 pixels; at most", {large_png(1'000'001, 1)}},
      {"1 x 2147483647 pixels; at most", {large_png(1, 0x7fffffff)}},
      {"978 x 65500 pixels; at most", {large_jpeg("rgb_420_progressive.jpg", 65500, 978)}},
      {"the pixels take 186046 bytes at least, but", {large_png(8000, 8000, "ab")}},
      {"the pixels take 125000 bytes at least, but",
       {large_jpeg("gray.jpg", 8000, 8000), large_jpeg("rgb_420.jpg", 8000, 8000),
        large_jpeg("rgb_420_progressive.jpg", 8000, 8000), large_jpeg("cmyk.jpg", 8000, 8000)}}};
  expect_all_refused(refusals, "bad.png", read_picture);
}

TEST(Pictures, RefusesTruncationAtEveryByte) {
  for (const auto& [name, pixels] : golden_pixels()) {
    const std::string bytes = slurp(golden_picture(name));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(parse(bytes.substr(0, length)), FormatError) << name << " " << length;
    }
  }
}

TEST(Pictures, RandomFaultsAreReadOrRefusedInSilence) {
  Random random(3);
  const auto any_char = [&] { return static_cast<char>(random.below(256)); };
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  int refused = 0, read = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto& [name, pixels] = *std::next(golden_pixels().begin(), i % std::ssize(golden_pixels()));
    std::string broken = slurp(golden_picture(name));
    for (std::uint64_t faults = 1 + random.below(3); faults > 0; --faults) {
      const std::size_t at = random.below(broken.size()), kind = random.below(3);
      if (kind == 0) broken[at] = any_char();
      if (kind == 1) broken.erase(at, random.below(4));
      if (kind == 2) broken.insert(at, 1 + random.below(4), any_char());
    }
    try {
      const Tensor picture = parse(broken);
      EXPECT_TRUE(picture.size(0) * picture.size(1) <= kMostPixels && picture.size(2) == 3);
      ++read;
    } catch (const FormatError& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("x: ") && message.find('\n') == std::string::npos) << message;
      EXPECT_LT(message.size(), 300u);
      ++refused;
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout(), "");
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 100);
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

TEST(PicturesMemory, ThePixelsOnce) {
  constexpr std::int64_t kEdge = 3072;
  // Beside the pixels: what else is read, and what the large pages at their ends hold of other blocks, or of none.
  constexpr std::int64_t kBeside = 4 * kMebibyte, kLargePages = 2 * 2 * kMebibyte;
  const TemporaryFolder folder;
  const std::string row = "\0"s + std::string(kEdge * 3, '\x55');
  std::string rows;
  for (std::int64_t y = 0; y < kEdge; ++y) rows += row;
  const std::string paths[] = {folder.put("a.png", png_of({.width = kEdge, .height = kEdge, .colour = 2}, rows)),
                               folder.put("a.jpg", gray_jpeg(kEdge, kEdge))};
  for (const std::string& path : paths) {
    const Memory added = cost([&] { return read_picture(path); });
    EXPECT_GE(added.resident, kEdge * kEdge * 3);
    EXPECT_LE(added.peak, kEdge * kEdge * 3 + kBeside + kLargePages) << path;
  }
}

TEST(PicturesMemory, NothingForAHeaderAlone) {
  const std::string jpeg = slurp(golden_picture("rgb_420_progressive.jpg"));
  const std::string exif = jpeg_segment('\xe1', std::string(io::kExifMagic) + std::string(65527, 'x'));
  const std::string text = png_chunk("tEXt", "a\0"s + std::string(65533, 'x'));
  std::string segments = "\xff\xd8", texts;
  for (int i = 0; i < 400; ++i) {
    segments += exif;
    texts += text;
  }
  const std::string files[] = {png({.width = 8000, .height = 8000, .colour = 2}, png_chunk("IDAT", "")),
                               png({.width = 60000, .height = 60000, .colour = 2}, png_chunk("IDAT", "")),
                               png({}, texts),
                               with_jpeg_size(jpeg, 8000, 8000),
                               with_jpeg_size(jpeg, 60000, 60000),
                               segments};
  for (const std::string& file : files) {
    const Memory added = cost([&] {
      EXPECT_THROW(parse_picture(file, "x"), FormatError);
      return 0;
    });
    EXPECT_LE(added.peak, 16 * kMebibyte);  // most of it pages of the program that throwing reads
  }
}

#endif

}  // namespace
}  // namespace qkv::test
