// Files of arrays, beyond files.h: bytes that are in memory already, several files that belong together, and what the
// name of an array on a command line says.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "qkv/files.h"
#include "qkv/tensor.h"

namespace qkv::io {

// `name` stands for the file in messages.
Tensor parse_npy(std::string_view bytes, const std::string& name);
SafeTensors parse_safetensors(std::string_view bytes, const std::string& name);
Tensor parse_csv(std::string_view text, const std::string& name);

struct NpyFile {
  std::string path;
  TensorView array;
};

// All of them or none: each is whole on disk before the first takes the place of an older one. Errors as write_npy's.
void write_npy_files(std::span<const NpyFile> files);

// FILE.safetensors:TENSOR, or a file of one array, which has no name for it.
struct ArrayPath {
  std::string file;
  std::optional<std::string> tensor{};
};
ArrayPath parse_array_path(const std::string& path);

// Whether a path ends so, in small letters or capitals; `ending` is in small letters.
bool has_ending(std::string_view path, std::string_view ending);

}  // namespace qkv::io
