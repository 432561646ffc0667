// Files that the command line names.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace qkv::app {

// A file, and the option that names it. Without a path it was not given.
struct NamedFile {
  const char* option;
  std::string path{};

  bool given() const { return !path.empty(); }
};

inline bool any_given(std::span<const NamedFile> files) { return std::ranges::any_of(files, &NamedFile::given); }

// Refuses a file to be written that is one of these, or could not be written, before any work.
void check_output(const std::vector<NamedFile>& inputs, const NamedFile& output);

// Refuses outputs that would lose data (no two files may be one) or could not be written, before any work.
void check_outputs(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

}  // namespace qkv::app
