// The header of a safetensors file: which tensor lies where. https://github.com/huggingface/safetensors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"
#include "qkv/tensor.h"

namespace qkv::io {

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

// "F32" ...: the name of a type in the format.
std::string_view safetensors_name(Dtype dtype);

}  // namespace qkv::io
