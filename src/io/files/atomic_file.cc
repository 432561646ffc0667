// Writes a file under a temporary name, syncs it and renames it.
#include "io/files/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

// Unique among the threads of this process and the processes of this machine; O_EXCL settles what is left.
std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return fmt::format(".qkv-{}-{}.tmp", ::getpid(), counter++);
}

// Permissions of the regular file at `path`; nothing if there is no file yet.
std::optional<mode_t> permissions(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) throw_io_error(path, "write");
    return std::nullopt;
  }
  check_regular(path, "write", status.st_mode);
  return status.st_mode & 0777;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  const std::optional<mode_t> mode = permissions(path);
  std::filesystem::path place = path;
  if (mode) {
    std::error_code error;
    place = std::filesystem::canonical(path, error);
    if (error) throw_io_error(path, "write", error);
  }
  name_ = place.filename();
  const std::string folder = place.has_parent_path() ? place.parent_path() : ".";
  folder_ = Descriptor(retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder_) throw_io_error(path, "write");
  do {
    temporary_ = temporary_name();
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    file_ = Descriptor(retry([&] { return ::openat(folder_.get(), temporary_.c_str(), kFlags, 0666); }));
  } while (!file_ && errno == EEXIST);
  if (!file_) throw_io_error(path, "write");
  // Where the file system knows no permissions there are none to lose.
  if (mode) static_cast<void>(::fchmod(file_.get(), *mode));
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    check_stop();
    const std::string_view piece = bytes.substr(0, static_cast<std::size_t>(kStopWork));
    const ssize_t done = retry([&] { return ::write(file_.get(), piece.data(), piece.size()); });
    if (done < 0) throw_io_error(path_, "write");
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void AtomicFile::finish() {
  if (retry([&] { return ::fsync(file_.get()); }) != 0) throw_io_error(path_, "write");
  finished_ = true;
}

void AtomicFile::commit() {
  if (!finished_) finish();
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) throw_io_error(path_, "write");
  committed_ = true;
  // Some file systems cannot bring a folder to disk and say EINVAL; their rename is as safe as it gets.
  if (retry([&] { return ::fsync(folder_.get()); }) != 0 && errno != EINVAL) throw_io_error(path_, "write");
}

}  // namespace io

void write_file(const std::string& path, std::string_view bytes) {
  io::AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace qkv
