// Bytes from files as text: in messages, and as UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::io {

// As text appears in messages: in quotes, on one line, in ASCII, clipped.
std::string quote(std::string_view text);

// How many bytes the code point takes that begins `text`; 0: these bytes are not UTF-8.
std::size_t size_of_first(std::string_view text);
// The number of code points; nothing if the bytes are not UTF-8.
std::optional<std::size_t> code_points_in(std::string_view text);

}  // namespace qkv::io
