// Breaks lines at spaces.
#include "io/wrap.h"

#include <algorithm>

namespace qkv {

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  do {
    std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
    while (line.size() > width) {
      std::size_t end = line.rfind(' ', width);
      if (end == std::string::npos || end < indent.size()) end = line.find(' ', indent.size());  // after a long word
      const std::size_t next = end == std::string::npos ? end : line.find_first_not_of(' ', end);
      if (next == std::string::npos) break;
      lines.push_back(line.substr(0, line.find_last_not_of(' ', end) + 1));
      line = indent + line.substr(next);
    }
    lines.push_back(std::move(line));
  } while (!text.empty());
  return lines;
}

}  // namespace qkv
