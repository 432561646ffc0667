// Reads a file of pairs and says what is wrong with lines that are not pairs.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/stop.h"
#include "io/files/files.h"
#include "qkv/error.h"

namespace qkv {
namespace io {
namespace {

constexpr const char* kPair = "must be a text, a tab and its translation";

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

// Why a line that is not blank is invalid; empty: it is valid.
std::string fault_of(std::string_view line, std::span<const std::string> reserved) {
  const auto columns = 1 + std::count(line.begin(), line.end(), '\t');
  if (columns > 2) return fmt::format("has {} columns; it {}", columns, kPair);
  const std::size_t tab = line.find('\t');
  if (columns < 2 || is_blank(line.substr(0, tab)) || is_blank(line.substr(tab))) return kPair;
  for (const std::string& token : reserved) {
    if (line.find(token) != std::string_view::npos) {
      return fmt::format("holds the special token {}", token);
    }
  }
  return "";
}

}  // namespace

PairLines read_pair_lines(const std::string& path, std::span<const std::string> reserved,
                          const TextLineOptions& options) {
  const std::string bytes = read_file(path);
  PairLines lines;
  std::int64_t number = 0;
  for (std::string_view rest = bytes; !rest.empty();) {
    check_stop();
    const std::size_t end = rest.find('\n');
    const std::string_view raw = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    ++number;
    std::string line;
    try {
      line = text_of_line(raw, number, options, path);
    } catch (const FormatError& error) {
      lines.faults.emplace_back(error.what());
      continue;
    }
    if (is_blank(line) && rest.empty()) break;
    const std::string fault = is_blank(line) ? "is blank" : fault_of(line, reserved);
    if (!fault.empty()) {
      lines.faults.push_back(fmt::format("{}: line {} {}", path, number, fault));
      continue;
    }
    const std::size_t tab = line.find('\t');
    lines.pairs.push_back({line.substr(0, tab), line.substr(tab + 1)});
    lines.numbers.push_back(number);
  }
  return lines;
}

}  // namespace io

std::vector<TextPair> read_pairs(const std::string& path) {
  io::PairLines lines = io::read_pair_lines(path);
  if (!lines.faults.empty()) throw FormatError(lines.faults.front());
  return std::move(lines.pairs);
}

}  // namespace qkv
