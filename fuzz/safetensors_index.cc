// Any bytes as the index of weights in several files: no name in it leaves the folder.
#include "io/safetensors_header.h"
#include "reader.h"

void read(std::string_view bytes) {
  for (const auto& [file, tensors] : qkv::io::parse_safetensors_index(bytes, "fuzz")) {
    if (tensors.empty() || std::filesystem::path("folder") / file != "folder/" + file) __builtin_trap();
    if (std::filesystem::path(file).filename() != file || file.find('\0') != std::string::npos) __builtin_trap();
  }
}
