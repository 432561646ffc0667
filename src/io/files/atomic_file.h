// A file that appears whole or not at all: written under a temporary name in the same folder, brought to disk, renamed.
#pragma once

#include <string>
#include <string_view>

#include "io/files/descriptor.h"

namespace qkv::io {

class AtomicFile {
 public:
  // `path` must not exist or be a regular file, whose permissions carry over; a symbolic link is followed.
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  // Without commit() nothing remains and an older file stays as it was.
  ~AtomicFile();

  void write(std::string_view bytes);
  // What was written is on disk then, not yet under its name. What follows hardly fails.
  void finish();
  // Finishes a file that is not finished.
  void commit();

 private:
  std::string path_;  // as given, for messages
  std::string name_;
  std::string temporary_;
  Descriptor folder_;
  Descriptor file_;
  bool finished_ = false, committed_ = false;
};

}  // namespace qkv::io
