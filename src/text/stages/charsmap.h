// The rules of a SentencePiece normalizer, "precompiled_charsmap": strings of text and what replaces them, found in a
// double-array trie over bytes. Source: Aoe, "An efficient digital search algorithm by using a double-array structure"
// (1989), in the format of Darts-clone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/stages/characters.h"

namespace qkv::text {

class Charsmap {
 public:
  // The bytes of the trie (u32), its units (u32 each), then the replacements, each ended by a zero byte; all
  // little-endian. Without bytes there are no rules. std::invalid_argument, with the rule, for any other: all units are
  // checked, so that no text can lead outside.
  explicit Charsmap(std::string_view blob);

  // A string at the beginning of the text that has a replacement. length 0: none has.
  struct Match {
    std::size_t length = 0;  // characters of the text
    std::string_view replacement{};
  };
  Match shortest(CharacterSpan text) const;
  Match longest(CharacterSpan text) const;

 private:
  // Calls found(match) for each such string, from short to long, until it returns false.
  template <class Found>
  void for_each_match(CharacterSpan text, const Found& found) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// Appends a replacement. Its characters stand for those that it replaces one by one, any others for the last of them.
void append_replacement(Characters& result, CharacterSpan replaced, std::string_view replacement);

}  // namespace qkv::text
