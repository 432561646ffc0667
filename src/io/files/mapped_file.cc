// Maps a file into memory.
#include "io/files/mapped_file.h"

#include <sys/mman.h>

#include "io/files/descriptor.h"

namespace qkv::io {

MappedFile map_file(const std::string& path) {
  const Descriptor file = open_to_read(path);
  const auto size = static_cast<std::size_t>(regular_file_size(path, file));
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw_io_error(path, "read");
  return {{static_cast<const std::byte*>(memory), size},
          std::shared_ptr<const void>(memory, [size](const void* begin) { munmap(const_cast<void*>(begin), size); })};
}

}  // namespace qkv::io
