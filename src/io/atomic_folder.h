// A folder of files that appears whole or not at all, and that tells later whether it still is: its last file,
// manifest.json, has the length and the checksum of every other one.
#pragma once

#include <string>

namespace qkv::io {

class AtomicFolder {
 public:
  // The folder above `path` must exist, `path` itself must not when commit() comes.
  explicit AtomicFolder(const std::string& path);
  AtomicFolder(const AtomicFolder&) = delete;
  // Without commit() nothing remains.
  ~AtomicFolder();

  // Where the files are to be written, each brought to disk by its writer (write_file and its like do).
  const std::string& unfinished() const { return unfinished_; }
  // Writes the manifest, and brings the folder to disk under its name.
  void commit();

  // Whether a folder of this name is one that a process left unfinished when it died.
  static bool is_unfinished(const std::string& path);

 private:
  std::string path_, unfinished_;
  bool committed_ = false;
};

// FormatError, naming the file, unless the folder is as it was committed; IoError if it cannot be read.
void verify_folder(const std::string& path);

}  // namespace qkv::io
