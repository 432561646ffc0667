#include <fmt/format.h>

#include <string_view>

#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/text_lines.h"

namespace qkv {

std::vector<TextPair> read_pairs(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<TextPair> pairs;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const std::string line = text_of_line(rest.substr(0, end), std::ssize(pairs) + 1, {}, path);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const std::size_t tab = line.find('\t');
    const bool one_tab = tab != std::string::npos && line.find('\t', tab + 1) == std::string::npos;
    if (!one_tab || tab == 0 || tab + 1 == line.size()) {
      throw FormatError(fmt::format("{}: line {} must be a text, a tab and its translation", path, pairs.size() + 1));
    }
    pairs.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return pairs;
}

}  // namespace qkv
