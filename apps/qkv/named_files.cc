// Checks the files that a command writes against those that it reads.
#include "named_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "command_line.h"
#include "io/descriptor.h"
#include "io/files.h"
#include "qkv/error.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// A form that is the same for two names of one file; the name itself where the system cannot follow it.
fs::path same_file_key(const std::string& path) {
  std::error_code error;
  const fs::path name = io::parse_array_path(path).file,
                 canonical = fs::weakly_canonical(fs::absolute(name, error), error);
  return error ? name : canonical;
}

// IoError if the file could not be written.
void check_writable(const std::string& name) {
  const fs::path path(name), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  const bool has_folder = fs::is_directory(folder, error), is_folder = fs::is_directory(path, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    io::throw_io_error(name, "write", error);
  }
  if (!has_folder) throw IoError(fmt::format("{}: the folder {} does not exist", name, folder.string()), ENOENT);
  if (is_folder) throw IoError(name + ": is a folder", EISDIR);
}

}  // namespace

void check_output(const std::vector<NamedFile>& inputs, const NamedFile& output) {
  for (const NamedFile& other : inputs) {
    if (other.given() && same_file_key(other.path) == same_file_key(output.path)) {
      throw UsageError(output.option,
                       fmt::format("{} is also the file of {}; it must be another file", output.path, other.option));
    }
  }
  check_writable(output.path);
}

void check_outputs(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  std::vector<NamedFile> taken = inputs;
  for (const NamedFile& file : outputs) {
    if (!file.given()) continue;
    if (!io::has_ending(file.path, ".npy")) throw UsageError(file.option, file.path + " must end in .npy");
    check_output(taken, file);
    taken.push_back(file);
  }
}

}  // namespace qkv::app
