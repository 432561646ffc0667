// Reads bytes in order from a file or from memory.
#include "io/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

// O_NONBLOCK: opening a FIFO that nobody writes to must not wait.
Descriptor open_to_read(const std::string& path) {
  Descriptor file(retry([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
  if (!file) throw_io_error(path, "read");
  return file;
}

std::uint64_t regular_file_size(const std::string& path, const Descriptor& file) {
  struct stat status;
  if (::fstat(file.get(), &status) != 0) throw_io_error(path, "read");
  check_regular(path, "read", status.st_mode);
  return static_cast<std::uint64_t>(status.st_size);
}

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
