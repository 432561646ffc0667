// The header of a safetensors file: which tensor lies where. https://github.com/huggingface/safetensors. And the index
// of weights that lie in several files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

class AtomicFile;

// Below the reference implementation's 100,000,000: what is refused costs little memory.
inline constexpr std::uint64_t kLongestSafetensorsHeader = 16'000'000;
inline constexpr std::size_t kMostTensors = 100'000;  // and as many entries of metadata
inline constexpr std::size_t kLongestTensorName = 4096;
inline constexpr std::size_t kMostNameBytes = 4'000'000;  // of all names together
inline constexpr std::string_view kMetadataKey = "__metadata__";

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  Dims shape;
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data, which lie end to end
  std::map<std::string, std::string> metadata;
  std::size_t alignment = 8;  // of the first one in a file that is written
};

// Checks every rule of the format: afterwards the entries fill exactly `data_size` bytes.
// FormatError beginning with `name`.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_size, const std::string& name);

// The header of a file, whose elements are what is left in the source afterwards.
SafetensorsHeader read_safetensors_header(ByteSource& source, const std::string& name);

// Reads these elements; those of tensors that are not `wanted` are passed over.
std::map<std::string, Tensor> read_safetensors_elements(ByteSource& source, const SafetensorsHeader& header,
                                                        const std::function<bool(const std::string&)>& wanted,
                                                        const std::string& name);

// Writes a file of these tensors, each asked for by its name when its turn comes; a view must last until the next one
// is asked for. Errors as of write_safetensors() in qkv/files.h; `path` stands for the file in messages.
void write_safetensors(AtomicFile& file, const std::string& path, SafetensorsHeader content,
                       const std::function<TensorView(const std::string&)>& tensor);
void write_safetensors(const std::string& path, SafetensorsHeader content,
                       const std::function<TensorView(const std::string&)>& tensor);

// "F32" ...: the name of a type in the format.
std::string_view safetensors_name(Dtype dtype);

// The index of weights that lie in several files: which file has which tensor. transformers writes it as
// model.safetensors.index.json: {"metadata": {"total_size": 48}, "weight_map": {"a.weight": "a.safetensors", ...}}.
inline constexpr std::size_t kMostShards = 512;  // all are open at once

// The names of the tensors of each file.
using SafetensorsIndex = std::map<std::string, std::set<std::string>>;

// FormatError beginning with `name`; a file is one of the index's own folder.
SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& name);
SafetensorsIndex read_safetensors_index(const std::string& path);

}  // namespace qkv::io
