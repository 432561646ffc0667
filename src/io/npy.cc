// NumPy's .npy: magic, version, length of the header, a header that is a Python dictionary, elements.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <fmt/format.h>

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/elements.h"
#include "io/npy_files.h"
#include "io/npy_header.h"
#include "io/parse.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kLongestHeader = 10000;  // NumPy's own bound
constexpr std::size_t kAlignment = 64;         // of the elements in files that we write

std::string read_header_text(ByteSource& source, const std::string& name) {
  const auto need = [&](std::uint64_t count, std::string_view what) {
    if (source.remaining() < count) {
      throw FormatError(fmt::format("{}: {} needs {} bytes, but {} are left", name, what, count, source.remaining()));
    }
  };
  std::array<char, 8> start;
  need(start.size(), "the magic and version");
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

void io::write_npy_files(std::span<const NpyFile> files) {
  for (const auto& [path, array] : files) {
    if (array.dtype() == Dtype::bf16) throw FormatError(path + ": .npy has no type for bf16; convert to f32");
  }
  std::deque<AtomicFile> written;
  for (const auto& [path, array] : files) {
    const Tensor copy = array.is_row_major() ? Tensor() : Tensor::copy(array);
    AtomicFile& file = written.emplace_back(path);
    file.write(header_of(array));
    file.write(bytes_of(array.is_row_major() ? array : copy.view()));
    file.finish();
  }
  for (AtomicFile& file : written) file.commit();
}

void write_npy(const std::string& path, const TensorView& array) {
  io::write_npy_files(std::vector<io::NpyFile>{{path, array}});
}

}  // namespace qkv
