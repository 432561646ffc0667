// Text as the tokenizer processes it: code points that remember which bytes of the original text they come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.h"
#include "text/stages/unicode.h"

namespace qkv::text {

struct Character {
  char32_t code;
  std::uint32_t begin;  // bytes begin <= i < end of the original text
  std::uint32_t end;
};

using Characters = std::vector<Character>;
using CharacterSpan = std::span<const Character>;

// `utf8` has less than 2^32 bytes; what is not UTF-8 becomes U+FFFD.
inline Characters to_characters(std::string_view utf8) {
  Characters characters;
  characters.reserve(utf8.size());
  StopTurns turns;
  for (std::size_t at = 0; at < utf8.size();) {
    turns.next();
    const Decoded next = decode_utf8(utf8.substr(at));
    characters.push_back({next.code, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + next.size)});
    at += next.size;
  }
  return characters;
}

inline std::string to_utf8(CharacterSpan characters) {
  std::string text;
  text.reserve(characters.size());
  for (const Character& c : characters) append_utf8(text, c.code);
  return text;
}

}  // namespace qkv::text
