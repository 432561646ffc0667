// Cleans up a line of text and refuses invalid UTF-8.
#include "qkv/text_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/stop.h"
#include "io/text.h"
#include "qkv/error.h"

namespace qkv {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Category Zs without ' ' itself, which has not changed for twenty years.
bool is_other_space(std::string_view character) {
  if (character.size() == 3 && character.starts_with("\xe2\x80")) {
    const auto last = static_cast<unsigned char>(character[2]);
    return last <= 0x8a || last == 0xaf;  // U+2000 to U+200A, U+202F
  }
  // U+00A0, U+1680, U+205F, U+3000
  return character == "\xc2\xa0" || character == "\xe1\x9a\x80" || character == "\xe2\x81\x9f" ||
         character == "\xe3\x80\x80";
}

}  // namespace

std::string text_of_line(std::string_view line, std::int64_t number, const TextLineOptions& options,
                         const std::string& file) {
  if (options.exact) return std::string(line);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (is_ascii(line)) return std::string(line);
  const std::size_t whole = line.size();
  if (number == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  std::string text;
  while (!line.empty()) {
    check_stop();
    const std::size_t size = io::size_of_first(line);
    if (size == 0 && !options.replace_invalid) {
      throw FormatError(fmt::format("{}line {}: byte {} (0x{:02x}) is not UTF-8, which texts must be",
                                    file.empty() ? "" : file + ": ", number, whole - line.size() + 1,
                                    static_cast<unsigned char>(line.front())));
    }
    const std::string_view character = line.substr(0, std::max<std::size_t>(1, size));
    text += is_other_space(character) ? " " : character;
    line.remove_prefix(character.size());
  }
  return text;
}

}  // namespace qkv
