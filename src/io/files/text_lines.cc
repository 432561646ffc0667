// Cleans up a text from outside and refuses what is not UTF-8.
#include "qkv/text_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/stop.h"
#include "io/files/text.h"
#include "qkv/error.h"

namespace qkv {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// ASCII without zero bytes: as it is.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c != 0 && static_cast<unsigned char>(c) < 0x80; });
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

enum class ByteOrderMark { kept, dropped };

// `origin`: what messages begin with.
template <class Origin>
std::string received(std::string_view line, ByteOrderMark mark, const TextLineOptions& options, const Origin& origin) {
  if (options.exact) return std::string(line);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (is_plain(line)) return std::string(line);
  const std::size_t whole = line.size();
  const auto refuse = [&](const char* what) {
    throw FormatError(fmt::format("{}byte {} (0x{:02x}) is {}", origin(), whole - line.size() + 1,
                                  static_cast<unsigned char>(line.front()), what));
  };
  if (mark == ByteOrderMark::dropped && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  std::string text;
  while (!line.empty()) {
    check_stop();
    const std::size_t size = io::size_of_first(line);
    const bool zero = line.front() == '\0';
    if (size == 0 && !options.replace_invalid) refuse("not UTF-8, but text must be");
    if (zero && !options.replace_invalid) refuse("a zero byte, which text does not have; is it UTF-16?");
    const std::string_view character = line.substr(0, std::max<std::size_t>(1, size));
    text += zero ? kReplacement : is_other_space(character) ? " " : character;
    line.remove_prefix(character.size());
  }
  return text;
}

}  // namespace

std::string text_of_line(std::string_view line, std::int64_t number, const TextLineOptions& options,
                         const std::string& file) {
  return received(line, number == 1 ? ByteOrderMark::dropped : ByteOrderMark::kept, options,
                  [&] { return fmt::format("{}line {}: ", file.empty() ? "" : file + ": ", number); });
}

std::string text_of_argument(std::string_view text, const TextLineOptions& options, const std::string& origin) {
  return received(text, ByteOrderMark::dropped, options, [&] { return origin.empty() ? "" : origin + ": "; });
}

}  // namespace qkv
