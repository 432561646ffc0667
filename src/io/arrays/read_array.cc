// One array from any kind of file, told by the ending of the path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <vector>

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
  SafeTensors content = read_safetensors(path);
  const auto found = name ? content.tensors.find(*name) : content.tensors.end();
  if (found != content.tensors.end()) return std::move(found->second);
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (const auto& entry : content.tensors) {
    if (names.size() == kShown) break;
    names.push_back(io::quote(entry.first));
  }
  throw FormatError(
      fmt::format("{}: {}; it has {}{}", path,
                  name ? "no tensor " + io::quote(*name) : fmt::format("which tensor? Write {}:TENSOR", path),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                  content.tensors.size() > kShown ? ", ..." : ""));
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
