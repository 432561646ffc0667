/// \file
/// Texts from outside: lines of files and arguments of programs, received by one function. Tokenizers and translators
/// themselves take every byte as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/api.h"

namespace qkv {

struct TextLineOptions {
  /// None of these rules: every byte before '\n' belongs to the text.
  bool exact = false;
  /// Bytes that are not UTF-8 stay, which tokenizers read as U+FFFD; zero bytes become U+FFFD.
  bool replace_invalid = false;
};

/// The text of a line, which comes without its '\n': without a carriage return at its end, without a byte order mark
/// before line 1, and with ' ' for each other space of Unicode (category Zs). `number`, from 1, and `file`, if any,
/// begin messages. FormatError for bytes that are not UTF-8, and for zero bytes.
QKV_API std::string text_of_line(std::string_view line, std::int64_t number, const TextLineOptions& options = {},
                                 const std::string& file = "");

/// The same of a text that came in one piece, as an argument does, line breaks in it included: as line 1. `origin`, if
/// any, begins messages.
QKV_API std::string text_of_argument(std::string_view text, const TextLineOptions& options = {},
                                     const std::string& origin = "");

}  // namespace qkv
