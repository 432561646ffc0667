// An open file that closes itself, system calls whose failure is an IoError, and whether a file is there.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace qkv::io {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();

  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }

 private:
  int value_ = -1;
};

// IoError "PATH: cannot ACTION: reason", the reason taken from errno.
[[noreturn]] void throw_io_error(const std::string& path, const char* action);
[[noreturn]] void throw_io_error(const std::string& path, const char* action, const std::error_code& reason);
// The same for what is no regular file: EISDIR for a folder, else EINVAL.
void check_regular(const std::string& path, const char* action, mode_t mode);

// The folder and those it is in, where they are missing.
void create_folders(const std::string& path);

// Repeats a system call that a signal interrupted.
template <class Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// IoError if the file cannot be read; one that is a FIFO is not waited for.
Descriptor open_to_read(const std::string& path);
// IoError unless it is a regular file.
std::uint64_t regular_file_size(const std::string& path, const Descriptor& file);

// Whether a path names anything at all. A file that is there in any way must be read: one that cannot be, such as a
// broken link, is no missing one.
bool is_there(const std::filesystem::path& path);

}  // namespace qkv::io
