// Parses and writes the header of an .npy file.
#include "io/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "io/quote.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

constexpr std::array<std::pair<std::string_view, Dtype>, 12> kDtypes = {{{"<f4", Dtype::f32},
                                                                         {"<f8", Dtype::f64},
                                                                         {"<f2", Dtype::f16},
                                                                         {"|b1", Dtype::boolean},
                                                                         {"|i1", Dtype::i8},
                                                                         {"|u1", Dtype::u8},
                                                                         {"<i2", Dtype::i16},
                                                                         {"<u2", Dtype::u16},
                                                                         {"<i4", Dtype::i32},
                                                                         {"<u4", Dtype::u32},
                                                                         {"<i8", Dtype::i64},
                                                                         {"<u8", Dtype::u64}}};

// Why a descr that is not in the table is refused.
std::string_view reason_to_refuse(std::string_view descr) {
  switch (descr.size() < 2 ? '\0' : descr[1]) {
    case 'O':
      return "objects are not supported";
    case 'c':
      return "complex numbers are not supported";
    case 'S':
    case 'a':
    case 'U':
      return "strings are not supported";
    case 'V':
      return "structured and void types are not supported";
    case 'M':
    case 'm':
      return "dates are not supported";
    default:
      return descr.starts_with('>') ? "big-endian elements are not supported"
                                    : "not supported; <f2 <f4 <f8 |b1 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 are";
  }
}

// Reads exactly the dictionary that NumPy writes: three keys, each once, in any order.
class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader read() {
    NpyHeader header;
    bool seen_descr = false, seen_order = false, seen_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = read_string();
      expect(':');
      if (key == "descr") {
        header.dtype = read_dtype(seen_descr);
      } else if (key == "fortran_order") {
        header.fortran_order = read_boolean(seen_order);
      } else if (key == "shape") {
        header.shape = read_shape(seen_shape);
      } else {
        refuse(fmt::format("unknown key {}", quote(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) refuse("something follows the closing brace");
    if (!seen_descr) refuse("descr is missing");
    if (!seen_order) refuse("fortran_order is missing");
    if (!seen_shape) refuse("shape is missing");
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw FormatError(name_ + ": header: " + what); }

  void first_time(bool& seen, std::string_view key) const {
    if (std::exchange(seen, true)) refuse(fmt::format("{} appears twice", key));
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(fmt::format("'{}' expected at byte {}", c, at_));
  }

  std::string_view read_string() {
    skip_spaces();
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    const std::size_t end = mark == '\'' || mark == '"' ? text_.find(mark, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) refuse(fmt::format("a string expected at byte {}", at_));
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos) refuse(fmt::format("an escape in the string at byte {}", at_));
    at_ = end + 1;
    return value;
  }

  Dtype read_dtype(bool& seen) {
    first_time(seen, "descr");
    if (accept('[')) refuse("descr: structured and void types are not supported");
    const std::string_view descr = read_string();
    for (const auto& [spelling, dtype] : kDtypes) {
      if (spelling == descr) return dtype;
    }
    refuse(fmt::format("descr {}: {}", quote(descr), reason_to_refuse(descr)));
  }

  bool read_boolean(bool& seen) {
    first_time(seen, "fortran_order");
    skip_spaces();
    for (const auto& [word, value] :
         {std::pair(std::string_view("True"), true), std::pair(std::string_view("False"), false)}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    refuse("fortran_order must be True or False");
  }

  std::vector<std::uint64_t> read_shape(bool& seen) {
    first_time(seen, "shape");
    std::vector<std::uint64_t> shape;
    if (!accept('(')) refuse("shape must be a tuple");
    bool comma = true;
    while (!accept(')')) {
      if (!comma) refuse("shape: ',' or ')' expected");
      shape.push_back(read_extent());
      comma = accept(',');
      if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
        refuse(fmt::format("shape: more than {} dimensions", kMaxRank));
      }
    }
    if (shape.size() == 1 && !comma) refuse("shape must be a tuple, (n,) for one dimension");
    return shape;
  }

  std::uint64_t read_extent() {
    skip_spaces();
    std::uint64_t extent = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
    if (error == std::errc::result_out_of_range) refuse("shape: an extent exceeds 64 bits");
    if (error != std::errc()) refuse(fmt::format("shape: a number of 0 or more expected at byte {}", at_));
    at_ += static_cast<std::size_t>(end - begin);
    return extent;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& name) { return Reader(text, name).read(); }

std::string npy_header_of(Dtype dtype, const Dims& shape) {
  const auto entry =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.second == dtype; });
  const char* comma = shape.size() == 1 ? "," : "";
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", entry->first,
                     fmt::join(shape, ", "), comma);
}

}  // namespace qkv::io
