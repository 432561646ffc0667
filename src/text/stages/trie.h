// A set of strings of code points, each with a number, that finds the longest one at the beginning of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/stages/characters.h"

namespace qkv::text {

class Trie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = ~Node{0};
  static constexpr std::uint32_t kNoValue = ~std::uint32_t{0};

  Trie() : values_(1, kNoValue), slots_(64) {}

  // Replaces the number of a string that is there already.
  void insert(std::u32string_view text, std::uint32_t value);

  // The node of a string that begins at `from`; kNone if no inserted string begins so.
  Node find(std::u32string_view text, Node from = kRoot) const;
  Node child(Node node, char32_t code) const;
  std::uint32_t value(Node node) const { return values_[node]; }  // kNoValue: no string ends here

  // The longest string, at least one code point long, that the text begins with. length 0: none.
  struct Match {
    std::size_t length = 0;
    std::uint32_t value = kNoValue;
  };
  Match longest(CharacterSpan text, Node from = kRoot) const;

 private:
  // Edges live in one hash table with open addressing: (parent, code point) to child. Child 0 marks a free slot.
  struct Slot {
    Node parent = 0;
    char32_t code = 0;
    Node child = 0;
  };
  std::size_t slot_of(Node node, char32_t code) const;
  void grow();

  std::vector<std::uint32_t> values_;  // of each node
  std::vector<Slot> slots_;            // a power of two, at most half full
};

}  // namespace qkv::text
