#include "qkv/lines.h"

#include <unistd.h>

#include <algorithm>

#include "io/descriptor.h"
#include "qkv/signals.h"

namespace qkv::app {

constexpr std::size_t kMaxLines = 1024;
constexpr std::size_t kPart = 1 << 16;  // bytes: as much as a pipe holds

void InputLines::fetch() {
  wait_to_read(STDIN_FILENO);
  bytes_.erase(0, begin_);
  begin_ = 0;
  const std::size_t size = bytes_.size();
  bytes_.resize(size + kPart);
  const ssize_t got = io::retry([&] { return read(STDIN_FILENO, bytes_.data() + size, kPart); });
  if (got < 0) io::throw_io_error("standard input", "read");
  bytes_.resize(size + static_cast<std::size_t>(got));
  ended_ = got == 0;
}

bool InputLines::next(std::string& line) {
  while (must_wait()) fetch();
  if (begin_ == bytes_.size()) return false;
  const std::size_t end = std::min(bytes_.find('\n', begin_), bytes_.size());
  line = bytes_.substr(begin_, end - begin_);
  if (line.ends_with('\r')) line.pop_back();
  begin_ = std::min(end + 1, bytes_.size());
  return true;
}

bool InputLines::next(std::vector<std::string>& lines) {
  lines.clear();
  for (std::string line; lines.size() < kMaxLines && (lines.empty() || !must_wait()) && next(line);) {
    lines.push_back(std::move(line));
  }
  return !lines.empty();
}

}  // namespace qkv::app
