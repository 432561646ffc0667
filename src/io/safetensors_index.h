// The index of weights that lie in several files: which file has which tensor. transformers writes it as
// model.safetensors.index.json: {"metadata": {"total_size": 48}, "weight_map": {"a.weight": "a.safetensors", ...}}.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace qkv::io {

inline constexpr std::size_t kMostShards = 512;  // all are open at once

// The names of the tensors of each file.
using SafetensorsIndex = std::map<std::string, std::set<std::string>>;

// FormatError beginning with `name`; a file is one of the index's own folder.
SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& name);
SafetensorsIndex read_safetensors_index(const std::string& path);

}  // namespace qkv::io
