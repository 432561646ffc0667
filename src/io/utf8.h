// Bytes from outside as UTF-8.
#pragma once

#include <utf8proc.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace qkv::io {

// How many bytes the code point takes that begins `text`; 0: these bytes are not UTF-8.
inline std::size_t size_of_first(std::string_view text) {
  utf8proc_int32_t code = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &code);
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

// The number of code points; nothing if the bytes are not UTF-8.
inline std::optional<std::size_t> code_points_in(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t size = size_of_first(text);
    if (size == 0) return std::nullopt;
    text.remove_prefix(size);
  }
  return count;
}

}  // namespace qkv::io
