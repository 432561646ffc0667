// The stages of a tokenizer. tokenizer.json names the kind of every stage; a new kind is a new function that makes one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/sha256.h"
#include "text/stages/characters.h"
#include "text/stages/vocabulary.h"

namespace qkv::text {

// Rewrites text before anything else sees it.
using Normalizer = std::function<Characters(CharacterSpan text)>;

// Cuts normalized text into words. It may rewrite the text; the words are in order and do not overlap.
struct Word {
  std::size_t begin;
  std::size_t end;
};
using PreTokenizer = std::function<std::vector<Word>(Characters& text)>;

// Cuts a word into tokens of the vocabulary.
struct Piece {
  const Vocabulary::Entry* entry;
  std::size_t begin;  // characters of the word
  std::size_t end;
};
class Model {
 public:
  virtual ~Model() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // The token of what is not in the vocabulary; nullptr: none.
  virtual const Vocabulary::Entry* unknown() const { return nullptr; }
  // Before pieces that do not begin a word.
  virtual std::string_view continuing_prefix() const { return {}; }
  // Makes what searching needs, which may take far more memory than the file: called once, before the first
  // tokenize(), when the whole file has passed its checks.
  virtual void build_index() {}
  // Adds what decides pieces besides the vocabulary and options: merges, scores.
  virtual void add_to(Sha256&) const {}
  // Appends the pieces of a non-empty word.
  virtual void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const = 0;
};

// Rewrites tokens, whose concatenation is the text in the end.
using Decoder = std::function<void(std::vector<std::string>& tokens)>;

}  // namespace qkv::text
