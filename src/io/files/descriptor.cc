// Opens and closes files, and turns failed system calls into IoError.
#include "io/files/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "qkv/error.h"

namespace qkv::io {

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

void throw_io_error(const std::string& path, const char* action) {
  throw_io_error(path, action, {errno, std::generic_category()});
}

void throw_io_error(const std::string& path, const char* action, const std::error_code& reason) {
  throw IoError(path + ": cannot " + action + ": " + reason.message(), reason.value());
}

void check_regular(const std::string& path, const char* action, mode_t mode) {
  if (S_ISREG(mode)) return;
  throw IoError(path + ": cannot " + action + ": not a regular file", S_ISDIR(mode) ? EISDIR : EINVAL);
}

void create_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_io_error(path, "create", error);
}

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

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

}  // namespace qkv::io
