// Lengths and spans of a text in characters, as Python and JSON count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "qkv/text/tokenizer.h"

namespace qkv::inline pipelines {

inline std::size_t characters_in(std::string_view text) {  // bytes of UTF-8 that begin one
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

class CharacterSpans {
 public:
  explicit CharacterSpans(std::string_view text) : characters_(text.size() + 1) {
    for (std::size_t i = 0, count = 0; i <= text.size(); ++i) {
      characters_[i] = count;
      const bool ends = i + 1 >= text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80;
      if (ends) ++count;
    }
  }

  TextSpan of(const TextSpan& bytes) const { return {characters_[bytes.begin], characters_[bytes.end]}; }

 private:
  std::vector<std::size_t> characters_;  // before each byte, and at the end
};

}  // namespace qkv::inline pipelines
