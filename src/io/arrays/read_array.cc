// One array from any kind of file, told by the ending of the path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "io/arrays/safetensors_header.h"
#include "io/files/byte_source.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace io {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

}  // namespace

bool has_ending(std::string_view path, std::string_view ending) {
  return path.size() >= ending.size() && in_small_letters(path.substr(path.size() - ending.size())) == ending;
}

ArrayPath parse_array_path(const std::string& path) {
  const std::size_t at = in_small_letters(path).find(fmt::format("{}:", kSafetensors));
  if (at == std::string::npos) return {.file = path};
  const std::size_t end = at + kSafetensors.size();
  return {.file = path.substr(0, end), .tensor = path.substr(end + 1)};
}

}  // namespace io

namespace {

Tensor read_tensor(const std::string& path, const std::optional<std::string>& name) {
  io::FileSource source(path);
  const io::SafetensorsHeader header = io::read_safetensors_header(source, path);
  auto found = io::read_safetensors_elements(source, header, [&](const std::string& one) { return one == name; }, path);
  if (!found.empty()) return std::move(found.begin()->second);
  constexpr std::size_t kShown = 10;
  std::set<std::string> all;
  for (const io::SafetensorsEntry& entry : header.entries) all.insert(entry.name);
  std::vector<std::string> names;
  for (const std::string& one : all | std::views::take(kShown)) names.push_back(io::quote(one));
  throw FormatError(fmt::format(
      "{}: {}; it has {}{}", path,
      name ? "no tensor " + io::quote(*name) : fmt::format("which tensor? Write {}:TENSOR", path),
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")), all.size() > kShown ? ", ..." : ""));
}

}  // namespace

Tensor read_array(const std::string& path) {
  const io::ArrayPath parsed = io::parse_array_path(path);
  if (parsed.tensor || io::has_ending(path, io::kSafetensors)) return read_tensor(parsed.file, parsed.tensor);
  if (io::has_ending(path, ".npy")) return read_npy(path);
  if (io::has_ending(path, ".csv")) return read_csv(path);
  if (io::has_ending(path, ".json")) return read_json_matrix(path);
  throw FormatError(path + ": unknown ending; arrays are read from .npy, .csv, .json and FILE.safetensors:TENSOR");
}

}  // namespace qkv
