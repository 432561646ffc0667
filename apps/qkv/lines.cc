#include "qkv/lines.h"

#include <iostream>

#include "qkv/error.h"

namespace qkv::app {

constexpr std::size_t kMaxLines = 1024;

bool read_lines(std::vector<std::string>& lines) {
  lines.clear();
  for (std::string line; lines.size() < kMaxLines && std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    if (std::cin.rdbuf()->in_avail() <= 0) break;
  }
  if (std::cin.bad()) throw IoError("standard input: it cannot be read");
  return !lines.empty();
}

}  // namespace qkv::app
