// Reads bytes in order from a file or from memory, the elements of tensors from them, and computes their checksum.
#include "io/files/byte_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {

namespace io {
namespace {

// Readers hold what a file claims against what is left of it: one that does not is wrong itself.
void require(bool is_there) {
  if (!is_there) throw std::logic_error("a reader goes beyond the end of its bytes");
}

}  // namespace

void ByteSource::read(void* to, std::size_t count) {
  require(count <= remaining_);
  if (count > 0) fetch(static_cast<char*>(to), count);
  remaining_ -= count;
}

void ByteSource::skip(std::uint64_t count) {
  require(count <= remaining_);
  advance(count);
  remaining_ -= count;
}

void MemorySource::fetch(char* to, std::size_t count) {
  for (std::size_t piece = 0; count > 0; count -= piece, to += piece, next_ += piece) {
    check_stop();
    piece = std::min(count, static_cast<std::size_t>(kStopWork));
    std::memcpy(to, next_, piece);
  }
}

FileSource::FileSource(const std::string& path) : FileSource(path, open_to_read(path)) {}

FileSource::FileSource(const std::string& path, Descriptor file)
    : ByteSource(regular_file_size(path, file)), path_(path), file_(std::move(file)) {}

void FileSource::fetch(char* to, std::size_t count) {
  while (count > 0) {
    check_stop();
    const ssize_t got =
        retry([&] { return ::read(file_.get(), to, std::min(count, static_cast<std::size_t>(kStopWork))); });
    if (got < 0) throw_io_error(path_, "read");
    if (got == 0) throw IoError(path_ + ": cannot read: the file shrank while it was read", EIO);
    to += got;
    count -= static_cast<std::size_t>(got);
  }
}

void FileSource::seek(std::uint64_t position) {
  require(position <= this->position() + remaining());
  if (::lseek(file_.get(), static_cast<off_t>(position), SEEK_SET) < 0) throw_io_error(path_, "read");
  set_position(position);
}

void FileSource::advance(std::uint64_t count) {
  if (::lseek(file_.get(), static_cast<off_t>(count), SEEK_CUR) < 0) throw_io_error(path_, "read");
}

}  // namespace io

std::string read_file(const std::string& path, std::uint64_t limit) {
  io::FileSource source(path);
  if (source.remaining() > limit) {
    throw FormatError(fmt::format("{}: {} bytes exceed the limit of {}", path, source.remaining(), limit));
  }
  std::string bytes(static_cast<std::size_t>(source.remaining()), '\0');
  source.read(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace qkv

namespace qkv::io {

static_assert(std::endian::native == std::endian::little,
              "files hold little-endian elements, which are read as they are");

std::optional<std::uint64_t> byte_count(std::span<const std::uint64_t> shape, Dtype dtype) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  std::uint64_t bytes = size_of(dtype);
  for (const std::uint64_t extent : shape) {
    if (extent == 0) continue;
    if (extent > kLimit / bytes) return std::nullopt;
    bytes *= extent;
  }
  return std::find(shape.begin(), shape.end(), 0u) == shape.end() ? bytes : 0;
}

Tensor read_elements(ByteSource& source, const Dims& shape, Dtype dtype, const std::string& where) {
  Tensor tensor = Tensor::uninitialized(shape, dtype);
  source.read(tensor.view().bytes(), bytes_of(tensor).size());
  if (dtype == Dtype::boolean) {  // any other byte in a C++ bool is undefined behaviour
    const std::string_view bytes = bytes_of(tensor);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i % static_cast<std::size_t>(kStopWork) == 0) check_stop();
      if (const auto byte = static_cast<unsigned char>(bytes[i]); byte > 1) {
        throw FormatError(fmt::format("{}: element {} is the byte {}, but a bool must be 0 or 1", where, i, byte));
      }
    }
  }
  return tensor;
}

std::string_view bytes_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes()),
          static_cast<std::size_t>(view.element_count()) * size_of(view.dtype())};
}

namespace {

using Table = std::array<std::uint32_t, 256>;

// tables[k][b] is the checksum's change by byte b with k zero bytes behind it: eight bytes a turn ("slicing by 8").
constexpr std::array<Table, 8> make_tables() {
  constexpr std::uint32_t kPolynomial = 0xEDB88320;
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFF];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  std::uint32_t value = ~before;
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(bytes[i])}; };
  while (bytes.size() >= 8) {
    value ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    value = kTables[7][value & 0xFF] ^ kTables[6][value >> 8 & 0xFF] ^ kTables[5][value >> 16 & 0xFF] ^
            kTables[4][value >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
            kTables[0][byte(7)];
    bytes.remove_prefix(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) value = (value >> 8) ^ kTables[0][(value ^ byte(i)) & 0xFF];
  return ~value;
}

}  // namespace qkv::io
