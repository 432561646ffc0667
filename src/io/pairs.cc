#include <fmt/format.h>

#include <string_view>

#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv {

std::vector<TextPair> read_pairs(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<TextPair> pairs;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t tab = line.find('\t');
    const bool one_tab = tab != std::string_view::npos && line.find('\t', tab + 1) == std::string_view::npos;
    if (!one_tab || tab == 0 || tab + 1 == line.size()) {
      throw FormatError(fmt::format("{}: line {} must be a text, a tab and its translation", path, pairs.size() + 1));
    }
    pairs.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return pairs;
}

}  // namespace qkv
