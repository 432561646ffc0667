// Reads and checks the index of weights in several files.
#include "io/safetensors_index.h"

#include <fmt/format.h>

#include "io/json_document.h"
#include "io/safetensors_header.h"
#include "qkv/files.h"

namespace qkv::io {
namespace {

constexpr std::string_view kEnding = ".safetensors";

std::string file_in_folder(const JsonValue& value) {
  const std::string file = value.string();
  if (!file.ends_with(kEnding)) value.refuse(fmt::format("must be a file name that ends with \"{}\"", kEnding));
  if (file.size() == kEnding.size() || file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    value.refuse("must be a file of the same folder");
  }
  return file;
}

// Nothing follows from it: files of great models exist whose number is another than that of their bytes.
void check_total_size(const JsonValue& root) {
  const auto metadata = root.find("metadata");
  const auto size = metadata ? metadata->find("total_size") : std::nullopt;
  if (size && size->number() < 0) size->refuse("must be 0 or more");
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& name) {
  const JsonDocument document(json, name);
  const JsonValue root = document.root(), map = root["weight_map"];
  check_total_size(root);
  SafetensorsIndex index;
  std::size_t count = 0;
  map.for_each_member([&](const std::string& tensor, const JsonValue& file) {
    if (++count > kMostTensors) map.refuse(fmt::format("has more than {} tensors", kMostTensors));
    index[file_in_folder(file)].insert(tensor);
    if (index.size() > kMostShards) map.refuse(fmt::format("names more than {} files", kMostShards));
  });
  if (index.empty()) map.refuse("must name at least one tensor");
  return index;
}

SafetensorsIndex read_safetensors_index(const std::string& path) {
  return parse_safetensors_index(read_file(path, kLongestSafetensorsHeader), path);
}

}  // namespace qkv::io
