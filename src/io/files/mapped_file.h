// A file's bytes as memory that is shared with whoever maps it too, and read when it is touched.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace qkv::io {

// As long as the pointer is kept. Replacing the file changes nothing; who cuts it short meanwhile ends the process by a
// signal. IoError unless the path is a regular file that can be read.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

MappedFile map_file(const std::string& path);

}  // namespace qkv::io
