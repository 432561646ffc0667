// Reading and writing safetensors: 8 bytes with the length of the header, the header, the elements of all tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "io/arrays/safetensors_header.h"
#include "io/files/atomic_file.h"
#include "io/files/byte_source.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

using LengthBytes = std::array<char, 8>;

SafeTensors read_safetensors(ByteSource& source, const std::string& name) {
  SafetensorsHeader header = read_safetensors_header(source, name);
  return {.tensors = read_safetensors_elements(
              source, header, [](const std::string&) { return true; }, name),
          .metadata = std::move(header.metadata)};
}

// Larger elements first, so that all are aligned; then by name.
void put_in_file_order(std::vector<SafetensorsEntry>& entries) {
  std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    const auto size_a = size_of(a.dtype), size_b = size_of(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
}

// JSON string; FormatError beginning with `path` if the text is not UTF-8.
std::string json_string(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw FormatError(fmt::format("{}: {} is not UTF-8", path, quote(text)));
  }
}

void check_limits(const SafetensorsHeader& content, const std::string& path) {
  if (content.entries.size() > kMostTensors || content.metadata.size() > kMostTensors) {
    throw FormatError(fmt::format("{}: more than {} tensors or entries of metadata", path, kMostTensors));
  }
  std::size_t name_bytes = 0;
  for (const auto& [name, dtype, shape, bytes] : content.entries) {
    name_bytes += name.size();
    if (name_bytes > kMostNameBytes) {
      throw FormatError(fmt::format("{}: the names take more than {} bytes", path, kMostNameBytes));
    }
    if (name == kMetadataKey) throw FormatError(path + ": a tensor cannot be named __metadata__");
    if (name.size() > kLongestTensorName) {
      throw FormatError(fmt::format("{}: tensor {}: name of {} bytes exceeds the limit of {}", path, quote(name),
                                    name.size(), kLongestTensorName));
    }
  }
}

std::string header_of(const SafetensorsHeader& content, const std::string& path) {
  std::vector<std::string> entries;
  if (!content.metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : content.metadata) {
      pairs.push_back(json_string(key, path) + ":" + json_string(value, path));
    }
    entries.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(pairs, ",")));
  }
  std::size_t begin = 0;
  for (const auto& [name, dtype, shape, bytes] : content.entries) {
    const std::size_t end = begin + bytes;
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(name, path), safetensors_name(dtype), fmt::join(shape, ","), begin, end));
    begin = end;
  }
  std::string header = fmt::format("{{{}}}", fmt::join(entries, ","));
  const std::size_t unit = content.alignment, over = (sizeof(LengthBytes) + header.size()) % unit;
  header.append((unit - over) % unit, ' ');
  if (header.size() > kLongestSafetensorsHeader) {
    throw FormatError(
        fmt::format("{}: header of {} bytes exceeds the limit of {}", path, header.size(), kLongestSafetensorsHeader));
  }
  return header;
}

}  // namespace

SafetensorsHeader read_safetensors_header(ByteSource& source, const std::string& name) {
  LengthBytes length_bytes;
  if (source.remaining() < length_bytes.size()) {
    throw FormatError(fmt::format("{}: {} bytes are too few for the length of the header", name, source.remaining()));
  }
  source.read(length_bytes.data(), length_bytes.size());
  const auto length = std::bit_cast<std::uint64_t>(length_bytes);
  if (std::string_view(length_bytes.data(), 4) == "PK\3\4") {
    throw FormatError(name +
                      ": is a ZIP archive, as torch.save() writes; safetensors.torch.save_file() writes safetensors");
  }
  if (length > kLongestSafetensorsHeader) {
    throw FormatError(
        fmt::format("{}: header length {} exceeds the limit of {}", name, length, kLongestSafetensorsHeader));
  }
  if (length > source.remaining()) {
    throw FormatError(
        fmt::format("{}: header length {} exceeds the {} bytes that follow", name, length, source.remaining()));
  }
  std::string json(static_cast<std::size_t>(length), '\0');
  source.read(json.data(), json.size());
  return parse_safetensors_header(json, source.remaining(), name);
}

std::map<std::string, Tensor> read_safetensors_elements(ByteSource& source, const SafetensorsHeader& header,
                                                        const std::function<bool(const std::string&)>& wanted,
                                                        const std::string& name) {
  std::map<std::string, Tensor> tensors;
  for (const SafetensorsEntry& entry : header.entries) {
    if (!wanted(entry.name)) {
      source.skip(entry.bytes);
      continue;
    }
    tensors[entry.name] = read_elements(source, entry.shape, entry.dtype, name + ": tensor " + quote(entry.name));
  }
  return tensors;
}

SafeTensors parse_safetensors(std::string_view bytes, const std::string& name) {
  MemorySource source(bytes);
  return read_safetensors(source, name);
}

void write_safetensors(const std::string& path, SafetensorsHeader content,
                       const std::function<TensorView(const std::string&)>& tensor) {
  AtomicFile file(path);
  write_safetensors(file, path, std::move(content), tensor);
  file.commit();
}

void write_safetensors(AtomicFile& file, const std::string& path, SafetensorsHeader content,
                       const std::function<TensorView(const std::string&)>& tensor) {
  check_limits(content, path);
  put_in_file_order(content.entries);
  const std::string header = header_of(content, path);
  const auto length = std::bit_cast<LengthBytes>(std::uint64_t{header.size()});
  file.write({length.data(), length.size()});
  file.write(header);
  for (const SafetensorsEntry& entry : content.entries) file.write(bytes_of(tensor(entry.name)));
}

}  // namespace io

SafeTensors read_safetensors(const std::string& path) {
  io::FileSource source(path);
  return io::read_safetensors(source, path);
}

void write_safetensors(const std::string& path, const SafeTensors& content) {
  io::SafetensorsHeader header{.entries = {}, .metadata = content.metadata};
  for (const auto& [name, tensor] : content.tensors) {
    header.entries.push_back({name, tensor.dtype(), tensor.shape(), io::bytes_of(tensor).size()});
  }
  io::write_safetensors(path, std::move(header),
                        [&](const std::string& name) -> TensorView { return content.tensors.at(name); });
}

}  // namespace qkv
