// One array from any kind of file, told by the ending of the path.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "io/quote.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

Tensor read_tensor(const std::string& path, const std::string& name) {
  SafeTensors content = read_safetensors(path);
  const auto found = content.tensors.find(name);
  if (found != content.tensors.end()) return std::move(found->second);
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (const auto& entry : content.tensors) {
    if (names.size() == kShown) break;
    names.push_back(io::quote(entry.first));
  }
  throw FormatError(fmt::format("{}: no tensor {}; it has {}{}", path, io::quote(name),
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                                content.tensors.size() > kShown ? ", ..." : ""));
}

}  // namespace

Tensor read_array(const std::string& path) {
  if (path.ends_with(".npy")) return read_npy(path);
  if (path.ends_with(".csv")) return read_csv(path);
  if (path.ends_with(".json")) return read_json_matrix(path);
  const std::size_t colon = path.find(std::string(kSafetensors) + ":");
  if (colon != std::string::npos) {
    const std::size_t end = colon + kSafetensors.size();
    return read_tensor(path.substr(0, end), path.substr(end + 1));
  }
  throw FormatError(path + ": unknown ending; arrays are read from .npy, .csv, .json and FILE.safetensors:TENSOR");
}

}  // namespace qkv
