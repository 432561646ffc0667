// PNG by libpng, in rows straight into the tensor.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <new>
#include <type_traits>

#include "core/stop.h"
#include "io/pictures/decoder_failure.h"
#include "io/pictures/picture_formats.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

constexpr std::uint64_t kMostInflation = 1032;  // times that deflate makes data larger at most

class PngReader {
 public:
  PngReader(ByteSource& source, const std::string& name)
      : source_(source), name_(name), png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Tensor read() {
    read_header();
    const std::int64_t width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    const bool palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
    Tensor picture = Tensor::uninitialized({height, width, 3}, Dtype::u8);
    read_rows(picture.data<std::uint8_t>(), width * 3, height);
    if (palette) spread_palette(picture);
    return picture;
  }

 private:
  // Calls the library.
  template <class Step>
  void run(const Step& step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (!finishes(step)) failure_.raise(name_ + ": PNG");
  }

  template <class Step>
  bool finishes(const Step& step) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    step();
    return true;
  }

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    DecoderFailure::Message& kept = static_cast<PngReader*>(png_get_error_ptr(png))->failure_.message();
    std::snprintf(kept.data(), kept.size(), "%s", message);
    png_longjmp(png, 1);
  }

  static void ignore(png_structp, png_const_charp) {}

  static void fetch(png_structp png, png_bytep to, std::size_t count) {
    PngReader& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self.source_.remaining()) png_error(png, "the file is cut");
    if (!self.failure_.keep_exception([&] { self.source_.read(to, count); })) png_error(png, "cannot read");
  }

  void read_header() {
    run([this] {
      png_set_read_fn(png_, this, fetch);
      png_set_sig_bytes(png_, static_cast<int>(kPngMagic.size()));
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours is on their product
      // Texts, profiles and the like are passed over, of any length.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_chunk_malloc_max(png_, 0);
      png_read_info(png_, info_);
    });
    const std::int64_t width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    check_picture_size(width, height, name_);
    const auto bits = static_cast<std::uint64_t>(png_get_bit_depth(png_, info_) * png_get_channels(png_, info_));
    check_picture_bytes(static_cast<std::uint64_t>(width * height) * bits / 8 / kMostInflation, source_.remaining(),
                        name_);
  }

  // 3 bytes for each pixel, of a palette its index first.
  void read_rows(std::uint8_t* rows, std::int64_t row_size, std::int64_t height) {
    run([this, rows, row_size, height] {
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_packing(png_);
      if ((png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0) {
        if (png_get_bit_depth(png_, info_) < 8) png_set_expand_gray_1_2_4_to_8(png_);
        png_set_gray_to_rgb(png_);
      }
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      for (int pass = 0; pass < passes; ++pass) {
        for (std::int64_t row = 0; row < height; ++row) {
          if (!failure_.keep_exception(check_stop)) png_error(png_, "stopped");
          png_read_row(png_, rows + row * row_size, nullptr);
        }
      }
      png_read_end(png_, nullptr);
    });
  }

  // Puts colours in the place of indices, from the last of a row, which lie there without gaps.
  void spread_palette(Tensor& picture) const {
    png_colorp colours = nullptr;
    int count = 0;
    png_get_PLTE(png_, info_, &colours, &count);
    const std::int64_t height = picture.size(0), width = picture.size(1);
    for (std::int64_t y = 0; y < height; ++y) {
      check_stop();
      std::uint8_t* row = picture.data<std::uint8_t>() + y * width * 3;
      for (std::int64_t x = width; x-- > 0;) {
        const int index = row[x];
        if (index >= count) {
          throw FormatError(
              fmt::format("{}: PNG: row {}, column {}: colour {} of a palette of {}", name_, y, x, index, count));
        }
        row[x * 3] = colours[index].red;
        row[x * 3 + 1] = colours[index].green;
        row[x * 3 + 2] = colours[index].blue;
      }
    }
  }

  ByteSource& source_;
  const std::string& name_;
  DecoderFailure failure_;
  png_structp png_;
  png_infop info_ = nullptr;
};

}  // namespace

Tensor read_png(ByteSource& source, const std::string& name) { return PngReader(source, name).read(); }

}  // namespace qkv::io
