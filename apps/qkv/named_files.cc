#include "qkv/named_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "qkv/error.h"
#include "qkv/program.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// FILE of FILE.safetensors:TENSOR, in a form that tells whether two names are one file.
fs::path same_file_key(std::string path) {
  const std::size_t tensor = path.find(".safetensors:");
  if (tensor != std::string::npos) path.resize(path.find(':', tensor));
  return fs::weakly_canonical(fs::absolute(path));
}

}  // namespace

void check_outputs(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  std::vector<NamedFile> taken = inputs;
  for (const NamedFile& file : outputs) {
    if (!file.given()) continue;
    const fs::path path(file.path);
    if (!file.path.ends_with(".npy")) throw UsageError(file.option, file.path + " must end in .npy");
    for (const NamedFile& other : taken) {
      if (other.given() && same_file_key(other.path) == same_file_key(file.path)) {
        throw UsageError(file.option,
                         fmt::format("{} is also {}; it must be a file of its own", file.path, other.option));
      }
    }
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    if (!fs::is_directory(folder)) throw IoError(fmt::format("{}: there is no folder {}", file.path, folder.string()));
    if (fs::is_directory(path)) throw IoError(file.path + ": it is a folder");
    taken.push_back(file);
  }
}

}  // namespace qkv::app
