// JPEG by libjpeg-turbo, each row straight to its place in the upright picture.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "core/stop.h"
#include "io/pictures/decoder_failure.h"
#include "io/pictures/picture_formats.h"
#include "qkv/error.h"
// clang-format off: jpeglib.h needs <cstdio>, and jerror.h the version in jpeglib.h
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace qkv::io {
namespace {

constexpr int kMostScans = 100;  // each goes over the whole picture, and may take a few bytes of the file alone
constexpr int kExifMarker = JPEG_APP0 + 1;

// Where the pixels of a stored row go: pixel [y, x] to origin + y * row + x * column, in bytes.
struct Placement {
  std::int64_t origin, row, column;

  Placement(int orientation, std::int64_t width, std::int64_t height) {
    const bool on_its_side = orientation >= 5;  // stored rows are upright columns
    const bool flip_rows = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool flip_columns = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    row = on_its_side ? 3 : width * 3;
    column = on_its_side ? height * 3 : 3;
    origin = (flip_rows ? (height - 1) * row : 0) + (flip_columns ? (width - 1) * column : 0);
    if (flip_rows) row = -row;
    if (flip_columns) column = -column;
  }
};

// a * b / 255, rounded.
int product_255(int a, int b) {
  const int product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

void place_rgb(const std::uint8_t* line, std::int64_t width, std::uint8_t* to, std::int64_t step) {
  for (std::int64_t x = 0; x < width; ++x, line += 3, to += step) std::memcpy(to, line, 3);
}

// Adobe writes 255 for no ink. What light black leaves, without the share of it that the colour's ink takes.
void place_cmyk(const std::uint8_t* line, std::int64_t width, std::uint8_t* to, std::int64_t step) {
  for (std::int64_t x = 0; x < width; ++x, line += 4, to += step) {
    for (int c = 0; c < 3; ++c) to[c] = static_cast<std::uint8_t>(line[3] - product_255(255 - line[c], line[3]));
  }
}

// Warnings of bytes that no pixel depends on: between segments, in the markers of Adobe and JFIF, in the parameters of
// scans that have no use for them, which old cameras leave 0. After any other the library makes pixels up.
bool is_harmless(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_NOT_SEQUENTIAL;
}

class JpegReader {
 public:
  JpegReader(ByteSource& source, const std::string& name) : source_(source), name_(name) {
    exif_.reserve(1 << 16);  // the longest segment
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr jpeg) { self_of(jpeg).fail(); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      if (level < 0 && !is_harmless(jpeg->err->msg_code)) self_of(jpeg).fail();
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr jpeg) {
      JpegReader& self = self_of(jpeg);
      if (self.jpeg_.input_scan_number > kMostScans) self.fail("more than 100 scans");
      if (!self.failure_.keep_exception(check_stop)) self.fail("stopped");
    };
    jpeg_.client_data = this;
    run([this] { jpeg_create_decompress(&jpeg_); });
    std::copy(kJpegMagic.begin(), kJpegMagic.end(), buffer_.begin());
    bytes_.next_input_byte = buffer_.data();
    bytes_.bytes_in_buffer = kJpegMagic.size();
    bytes_.init_source = bytes_.term_source = [](j_decompress_ptr) {};
    bytes_.fill_input_buffer = [](j_decompress_ptr jpeg) { return self_of(jpeg).fill(); };
    bytes_.skip_input_data = [](j_decompress_ptr jpeg, long count) { self_of(jpeg).skip(count); };
    bytes_.resync_to_restart = jpeg_resync_to_restart;
    jpeg_.src = &bytes_;
    jpeg_.progress = &progress_;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }

  Tensor read() {
    read_header();
    const std::int64_t width = jpeg_.image_width, height = jpeg_.image_height;
    const int orientation = exif_orientation({exif_.data(), exif_.size()});
    Tensor picture =
        Tensor::uninitialized(orientation >= 5 ? Dims{width, height, 3} : Dims{height, width, 3}, Dtype::u8);
    read_rows(picture.data<std::uint8_t>(), Placement(orientation, width, height));
    return picture;
  }

 private:
  template <class Jpeg>
  static JpegReader& self_of(Jpeg* jpeg) {
    return *static_cast<JpegReader*>(jpeg->client_data);
  }

  // Calls the library.
  template <class Step>
  void run(const Step& step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (!finishes(step)) failure_.raise(name_ + ": JPEG");
  }

  template <class Step>
  bool finishes(const Step& step) {
    if (setjmp(escape_) != 0) return false;
    step();
    return true;
  }

  [[noreturn]] void fail() {
    static_assert(sizeof(DecoderFailure::Message) >= JMSG_LENGTH_MAX);
    if (errors_.msg_code == JERR_OUT_OF_MEMORY) failure_.keep_exception([] { throw std::bad_alloc(); });
    errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), failure_.message().data());
    std::longjmp(escape_, 1);
  }

  [[noreturn]] void fail(const char* message) {
    std::snprintf(failure_.message().data(), failure_.message().size(), "%s", message);
    std::longjmp(escape_, 1);
  }

  boolean fill() {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), source_.remaining()));
    if (count == 0) fail("the file is cut");
    if (!failure_.keep_exception([&] { source_.read(buffer_.data(), count); })) fail("cannot read");
    bytes_.next_input_byte = buffer_.data();
    bytes_.bytes_in_buffer = count;
    return TRUE;
  }

  void skip(long count) {
    if (count <= 0) return;
    const std::size_t here = std::min(static_cast<std::size_t>(count), bytes_.bytes_in_buffer);
    bytes_.next_input_byte += here;
    bytes_.bytes_in_buffer -= here;
    const std::uint64_t beyond = static_cast<std::uint64_t>(count) - here;
    if (beyond > source_.remaining()) fail("the file is cut");
    if (beyond > 0 && !failure_.keep_exception([&] { source_.skip(beyond); })) fail("cannot read");
  }

  unsigned next_byte() {
    if (bytes_.bytes_in_buffer == 0) fill();
    --bytes_.bytes_in_buffer;
    return *bytes_.next_input_byte++;
  }

  // Keeps the first EXIF segment; the library would keep every segment of this kind.
  boolean read_exif() {
    const unsigned upper = next_byte(), length = upper << 8 | next_byte();
    if (length < 2) fail("a segment of fewer than 2 bytes");
    const bool first = exif_.empty();
    if (!first) {
      skip(static_cast<long>(length) - 2);
      return TRUE;
    }
    for (unsigned i = 2; i < length; ++i) exif_.push_back(static_cast<char>(next_byte()));
    if (std::string_view(exif_.data(), exif_.size()).substr(0, kExifMagic.size()) != kExifMagic) exif_.clear();
    return TRUE;
  }

  void read_header() {
    run([this] {
      jpeg_set_marker_processor(&jpeg_, kExifMarker, [](j_decompress_ptr jpeg) { return self_of(jpeg).read_exif(); });
      jpeg_read_header(&jpeg_, TRUE);
    });
    check_picture_size(jpeg_.image_width, jpeg_.image_height, name_);
    const int components = jpeg_.num_components;
    if (components != 1 && components != 3 && components != 4) {
      throw FormatError(fmt::format("{}: JPEG: {} components; 1, 3 and 4 are supported", name_, components));
    }
    if (jpeg_.arith_code) throw FormatError(name_ + ": JPEG: arithmetic coding is not supported; Huffman coding is");
    std::uint64_t blocks = 0;  // of 8 x 8, each of which takes a bit at least
    for (int i = 0; i < components; ++i) {
      const jpeg_component_info& component = jpeg_.comp_info[i];
      blocks = std::max(blocks, std::uint64_t{component.width_in_blocks} * component.height_in_blocks);
    }
    check_picture_bytes(blocks / 8, bytes_.bytes_in_buffer + source_.remaining(), name_);
  }

  void read_rows(std::uint8_t* pixels, const Placement& placement) {
    const bool cmyk = jpeg_.num_components == 4;
    jpeg_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    std::vector<std::uint8_t> line(std::size_t{jpeg_.image_width} * (cmyk ? 4 : 3));
    run([this, cmyk, pixels, &placement, &line] {
      jpeg_start_decompress(&jpeg_);
      while (jpeg_.output_scanline < jpeg_.output_height) {
        std::uint8_t* to = pixels + placement.origin + jpeg_.output_scanline * placement.row;
        JSAMPROW row = line.data();
        jpeg_read_scanlines(&jpeg_, &row, 1);
        (cmyk ? place_cmyk : place_rgb)(line.data(), jpeg_.output_width, to, placement.column);
      }
      jpeg_finish_decompress(&jpeg_);
    });
  }

  ByteSource& source_;
  const std::string& name_;
  DecoderFailure failure_;
  std::jmp_buf escape_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr bytes_{};
  jpeg_progress_mgr progress_{};
  std::array<JOCTET, 1 << 14> buffer_;
  std::vector<char> exif_;
};

}  // namespace

Tensor read_jpeg(ByteSource& source, const std::string& name) { return JpegReader(source, name).read(); }

}  // namespace qkv::io
