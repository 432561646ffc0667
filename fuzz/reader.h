// A fuzz target of a reader: any bytes are read, or refused with a FormatError.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

// What a target defines.
void read(std::string_view bytes);

namespace qkv::fuzz {

// A folder that is there until the program ends, with these bytes as the file `name`.
inline std::string folder_with(const std::string& name, std::string_view bytes) {
  static const struct Folder {
    Folder() {
      std::string pattern = (std::filesystem::temp_directory_path() / "qkv_fuzz_XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
      path = pattern;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  } folder;
  const std::filesystem::path file = folder.path / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return folder.path.string();
}

}  // namespace qkv::fuzz
