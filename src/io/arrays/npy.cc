// NumPy's .npy: magic, version, length of the header, a header that is a Python dictionary, elements.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files/atomic_file.h"
#include "io/files/byte_source.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/tensor.h"

namespace qkv {
namespace io {
namespace {

// The header of an .npy file: a Python dictionary with the type, the order and the shape of the array.
struct NpyHeader {
  Dtype dtype = Dtype::f32;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;  // unchecked but for the rank
};

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

// FormatError beginning with `name` if the text breaks a rule.
NpyHeader parse_npy_header(std::string_view text, const std::string& name) { return Reader(text, name).read(); }

// The dictionary of an array in row-major order.
std::string npy_header_of(Dtype dtype, const Dims& shape) {
  const auto entry =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.second == dtype; });
  const char* comma = shape.size() == 1 ? "," : "";
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", entry->first,
                     fmt::join(shape, ", "), comma);
}

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kLongestHeader = 10000;  // NumPy's own bound
constexpr std::size_t kAlignment = 64;         // of the elements in files that we write

std::string read_header_text(ByteSource& source, const std::string& name) {
  const auto need = [&](std::uint64_t count, std::string_view what) {
    if (source.remaining() < count) {
      throw FormatError(
          fmt::format("{}: cut short: {} needs {} bytes, but {} are left", name, what, count, source.remaining()));
    }
  };
  std::array<char, 8> start;
  need(start.size(), "the start of an .npy file");
  source.read(start.data(), start.size());
  if (std::string_view(start.data(), kMagic.size()) != kMagic) {
    throw FormatError(name + ": not an .npy file: wrong magic");
  }
  const int major = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    throw FormatError(fmt::format("{}: version {}.{} is not supported; 1.0, 2.0 and 3.0 are", name, major, minor));
  }
  std::array<unsigned char, 4> length_bytes{};
  const std::size_t length_size = major == 1 ? 2 : 4;
  need(length_size, "the length of the header");
  source.read(length_bytes.data(), length_size);
  std::uint64_t length = 0;
  for (std::size_t i = length_size; i-- > 0;) length = length << 8 | length_bytes[i];
  if (length > kLongestHeader) {
    throw FormatError(fmt::format("{}: header of {} bytes exceeds the limit of {}", name, length, kLongestHeader));
  }
  need(length, "the header");
  std::string text(static_cast<std::size_t>(length), '\0');
  source.read(text.data(), text.size());
  return text;
}

Tensor read_npy(ByteSource& source, const std::string& name) {
  const std::string text = read_header_text(source, name);
  const NpyHeader header = parse_npy_header(text, name);
  const std::optional<std::uint64_t> bytes = byte_count(header.shape, header.dtype);
  if (!bytes) throw FormatError(name + ": header: shape: too many elements");
  Dims shape;
  for (const std::uint64_t extent : header.shape) shape.push_back(static_cast<std::int64_t>(extent));
  if (*bytes != source.remaining()) {
    throw FormatError(fmt::format("{}: shape {} of {} needs {} bytes of data, but the file has {}", name,
                                  to_string(shape), name_of(header.dtype), *bytes, source.remaining()));
  }
  if (!header.fortran_order || shape.size() < 2) return read_elements(source, shape, header.dtype, name);

  // Fortran order is the row-major order of the reversed shape.
  Dims reversed, reversed_strides;
  for (int i = shape.size() - 1; i >= 0; --i) reversed.push_back(shape[i]);
  const Tensor stored = read_elements(source, reversed, header.dtype, name);
  const Dims strides = row_major_strides(reversed);
  for (int i = shape.size() - 1; i >= 0; --i) reversed_strides.push_back(strides[i]);
  return Tensor::copy(TensorView(stored.view().bytes(), header.dtype, shape, reversed_strides));
}

std::string header_of(const TensorView& array) {
  std::string header = npy_header_of(array.dtype(), array.shape());
  constexpr std::size_t kBefore = kMagic.size() + 4;
  header.append(kAlignment - 1 - (kBefore + header.size()) % kAlignment, ' ');
  header += '\n';
  const std::string length = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return std::string(kMagic) + std::string("\1\0", 2) + length + header;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& name) {
  MemorySource source(bytes);
  return read_npy(source, name);
}

}  // namespace io

Tensor read_npy(const std::string& path) {
  io::FileSource source(path);
  return io::read_npy(source, path);
}

void io::write_npy(AtomicFile& file, const std::string& path, const TensorView& array) {
  if (array.dtype() == Dtype::bf16) throw FormatError(path + ": .npy has no type for bf16; convert to f32");
  const Tensor copy = array.is_row_major() ? Tensor() : Tensor::copy(array);
  file.write(header_of(array));
  file.write(bytes_of(array.is_row_major() ? array : copy.view()));
}

void write_npy(const std::string& path, const TensorView& array) {
  io::AtomicFile file(path);
  io::write_npy(file, path, array);
  file.commit();
}

}  // namespace qkv
