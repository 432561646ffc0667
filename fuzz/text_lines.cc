// Any bytes as lines of text: each is UTF-8 afterwards, unless it was to be taken as it is.
#include "qkv/text_lines.h"

#include <utf8proc.h>

#include "qkv/error.h"
#include "reader.h"

namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code);
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

void read_line(std::string_view line, std::int64_t number) {
  if (qkv::text_of_line(line, number, {.exact = true}) != line) __builtin_trap();
  const std::string replaced = qkv::text_of_line(line, number, {.replace_invalid = true});
  try {
    const std::string text = qkv::text_of_line(line, number);
    if (!is_utf8(text) || text != replaced || text.ends_with('\r') != line.ends_with("\r\r")) __builtin_trap();
  } catch (const qkv::FormatError&) {
    if (is_utf8(line)) __builtin_trap();
  }
}

}  // namespace

void read(std::string_view bytes) {
  for (std::int64_t number = 1;; ++number) {
    const std::size_t end = bytes.find('\n');
    read_line(bytes.substr(0, end), number);
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}
