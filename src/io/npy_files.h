// Several .npy files that belong together.
#pragma once

#include <span>
#include <string>

#include "qkv/tensor.h"

namespace qkv::io {

struct NpyFile {
  std::string path;
  TensorView array;
};

// All of them or none: each is whole on disk before the first takes the place of an older one. Errors as write_npy's.
void write_npy_files(std::span<const NpyFile> files);

}  // namespace qkv::io
