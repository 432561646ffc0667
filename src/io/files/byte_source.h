// Bytes in order, from a file or from memory; the elements of tensors in them, and their checksum. Their number is
// known beforehand, so that a reader can hold every size that a file claims against what is really there before it
// allocates or reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/files/descriptor.h"
#include "qkv/tensor.h"

namespace qkv::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  std::uint64_t remaining() const { return remaining_; }
  std::uint64_t position() const { return size_ - remaining_; }
  // The next `count` bytes; at most remaining().
  void read(void* to, std::size_t count);
  // Passes over them instead.
  void skip(std::uint64_t count);

 protected:
  explicit ByteSource(std::uint64_t size) : size_(size), remaining_(size) {}
  void set_position(std::uint64_t position) { remaining_ = size_ - position; }

 private:
  virtual void fetch(char* to, std::size_t count) = 0;
  virtual void advance(std::uint64_t count) = 0;

  std::uint64_t size_, remaining_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : ByteSource(bytes.size()), next_(bytes.data()) {}

 private:
  void fetch(char* to, std::size_t count) override;
  void advance(std::uint64_t count) override { next_ += count; }

  const char* next_;
};

// IoError unless the path is a regular file that can be read.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path);

  // Goes on from there, which is not behind the end.
  void seek(std::uint64_t position);

 private:
  FileSource(const std::string& path, Descriptor file);
  void fetch(char* to, std::size_t count) override;
  void advance(std::uint64_t count) override;

  std::string path_;
  Descriptor file_;
};

// Bytes of the elements of this shape. Nothing if the product of the extents, zeros left out, exceeds 2^62 bytes: an
// extent of 0 must not excuse others that overflow.
std::optional<std::uint64_t> byte_count(std::span<const std::uint64_t> shape, Dtype dtype);

// The next elements of the source, which must have them. FormatError beginning with `where` if a bool is not 0 or 1.
Tensor read_elements(ByteSource& source, const Dims& shape, Dtype dtype, const std::string& where);

// The elements of a row-major view as bytes.
std::string_view bytes_of(const TensorView& view);

// CRC-32 of ISO-HDLC (zip, PNG): tells whether bytes are still those that were written. No defence against intent. Of
// bytes that follow those whose checksum is `before`.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace qkv::io
