// Writes a folder of files with a manifest, and verifies it.
#include "io/atomic_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/files/byte_source.h"
#include "io/files/descriptor.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kUnfinished = ".unfinished";
constexpr std::size_t kMaxManifestBytes = 1 << 20;

struct Sum {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

Sum sum_of(const std::string& path) {
  FileSource source(path);
  Sum sum{.bytes = source.remaining()};
  std::string part;
  while (source.remaining() > 0) {
    part.resize(static_cast<std::size_t>(std::min<std::uint64_t>(source.remaining(), 1 << 20)));
    source.read(part.data(), part.size());
    sum.crc32 = crc32(part, sum.crc32);
  }
  return sum;
}

void sync_folder(const std::string& path) {
  const Descriptor folder(retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder) throw_io_error(path, "write");
  // Some file systems cannot bring a folder to disk and say EINVAL.
  if (retry([&] { return ::fsync(folder.get()); }) != 0 && errno != EINVAL) throw_io_error(path, "write");
}

}  // namespace

bool AtomicFolder::is_unfinished(const std::string& path) { return path.ends_with(kUnfinished); }

AtomicFolder::AtomicFolder(const std::string& path) : path_(path), unfinished_(path + kUnfinished) {
  std::error_code error;
  fs::remove_all(unfinished_, error);  // of a process that died here
  if (error) throw_io_error(unfinished_, "remove", error);
  if (::mkdir(unfinished_.c_str(), 0777) != 0) throw_io_error(unfinished_, "write");
}

AtomicFolder::~AtomicFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(unfinished_, ignored);
}

void AtomicFolder::commit() {
  nlohmann::ordered_json files;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(unfinished_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const Sum sum = sum_of(unfinished_ + "/" + name);
    files[name] = {{"bytes", sum.bytes}, {"crc32", fmt::format("{:08x}", sum.crc32)}};
  }
  write_file(unfinished_ + "/" + kManifest, nlohmann::ordered_json{{"files", files}}.dump(1) + "\n");
  sync_folder(unfinished_);
  if (::rename(unfinished_.c_str(), path_.c_str()) != 0) throw_io_error(path_, "write");
  committed_ = true;
  const fs::path above = fs::path(path_).parent_path();
  sync_folder(above.empty() ? "." : above.string());
}

void verify_folder(const std::string& path) {
  const std::string manifest = path + "/" + kManifest;
  const JsonDocument document(read_file(manifest, kMaxManifestBytes), manifest);
  document.root()["files"].for_each_member([&](const std::string& name, const JsonValue& entry) {
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      throw FormatError(fmt::format("{}: {} must be the name of a file in its folder", manifest, quote(name)));
    }
    const std::string file = path + "/" + name;
    const auto bytes = static_cast<std::uint64_t>(entry["bytes"].integer(0, INT64_MAX));
    const Sum sum = sum_of(file);
    if (sum.bytes != bytes) {
      throw FormatError(fmt::format("{}: {} bytes; the manifest says {}", file, sum.bytes, bytes));
    }
    if (fmt::format("{:08x}", sum.crc32) != entry["crc32"].string()) {
      throw FormatError(
          fmt::format("{}: its checksum is {:08x}; the manifest says {}", file, sum.crc32, entry["crc32"].string()));
    }
  });
}

}  // namespace qkv::io
