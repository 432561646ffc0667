// Maps a file into memory.
#include "io/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "io/files/descriptor.h"

namespace qkv::io {

MappedFile map_file(const std::string& path) {
  const Descriptor file(retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file) throw_io_error(path, "read");
  struct stat status{};
  if (fstat(file.get(), &status) != 0) throw_io_error(path, "read");
  check_regular(path, "read", status.st_mode);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw_io_error(path, "read");
  return {{static_cast<const std::byte*>(memory), size},
          std::shared_ptr<const void>(memory, [size](const void* begin) { munmap(const_cast<void*>(begin), size); })};
}

}  // namespace qkv::io
