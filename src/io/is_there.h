// Whether a path names anything at all.
#pragma once

#include <filesystem>

namespace qkv::io {

// A file that is there in any way must be read: one that cannot be, such as a broken link, is no missing one.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

}  // namespace qkv::io
