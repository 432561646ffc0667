// Tokens that are searched for in the text itself, before the model sees it: special ones such as [MASK], and whatever
// else was added to a vocabulary. They are found from left to right, the longest first.
#pragma once

#include "text/stages/stages.h"
#include "text/stages/trie.h"

namespace qkv::text {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;      // left out when decoding
  bool single_word = false;  // not inside of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // searched for in normalized text, in its own normalized form
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // std::invalid_argument if two share their content, their id or the form that is searched for, or if one is empty.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // The text in order, cut into added tokens and what lies between them; only those with this `normalized` are found.
  struct Section {
    const AddedToken* token;  // nullptr: text between
    CharacterSpan text;
  };
  std::vector<Section> split(CharacterSpan text, bool normalized) const;

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(std::int32_t id) const;
  // A token as decoded text has it: its normalized form, for one that is searched for in it.
  std::string_view form(const AddedToken& token) const { return forms_[index(token)]; }
  bool is_special(std::string_view content) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::size_t index(const AddedToken& token) const { return static_cast<std::size_t>(&token - tokens_.data()); }

  std::vector<AddedToken> tokens_;
  std::vector<std::string> forms_;
  Vocabulary ids_;
  Trie as_given_;
  Trie normalized_;
};

}  // namespace qkv::text
