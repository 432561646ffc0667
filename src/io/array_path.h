// What the name of an array on a command line says: which file, of which kind, and which tensor in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// FILE.safetensors:TENSOR, or a file of one array, which has no name for it.
struct ArrayPath {
  std::string file;
  std::optional<std::string> tensor{};
};
ArrayPath parse_array_path(const std::string& path);

// Whether a path ends so, in small letters or capitals; `ending` is in small letters.
bool has_ending(std::string_view path, std::string_view ending);

}  // namespace qkv::io
