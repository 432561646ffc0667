// Byte-pair encoding: a word begins as single characters; of all neighbours that the vocabulary can join, those that
// were learned first are joined, again and again. Source: Sennrich et al., "Neural machine translation of rare words
// with subword units" (2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

struct BpeOptions {
  std::string unknown_token{};      // for characters that are not in the vocabulary; empty: these are dropped
  std::string continuing_prefix{};  // of pieces that do not begin a word
  std::string word_suffix{};        // of pieces that end one
  bool fuse_unknown = false;        // neighbouring unknown characters are one token
  bool byte_fallback = false;       // unknown characters are the tokens <0x00> to <0xFF> of their bytes
  bool ignore_merges = false;       // a word of the vocabulary is one token, regardless of merges
};

class Bpe : public Model {
 public:
  // std::invalid_argument if the unknown token is not in the vocabulary.
  Bpe(Vocabulary vocabulary, BpeOptions options);
  // In the order they were learned; room for them is made before. std::invalid_argument if a part or the result is not
  // in the vocabulary.
  void reserve_merges(std::size_t count) { joins_.reserve(count); }
  void add_merge(std::string_view left, std::string_view right);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const Vocabulary::Entry* unknown() const override { return vocabulary_.find(options_.unknown_token); }
  std::string_view continuing_prefix() const override { return options_.continuing_prefix; }
  void build_index() override;
  void add_to(Sha256& digest) const override;
  void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const override;

 private:
  struct Join {
    std::uint32_t rank;
    std::uint32_t result;
  };
  // A piece on the way to its final size, in a list of neighbours.
  struct Symbol {
    std::uint32_t entry;
    std::uint32_t begin, end;  // characters
    std::uint32_t previous, next;
  };
  std::uint32_t index_of(std::string_view token) const;  // kNone: not there
  std::uint32_t known(std::string_view token, std::string_view role) const;
  void append_character(CharacterSpan word, std::size_t at, std::vector<Symbol>& symbols) const;
  void append_unknown(const std::string& text, std::size_t at, std::vector<Symbol>& symbols) const;
  void join_all(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;  // entries are named by their index
  BpeOptions options_;
  std::uint32_t unknown_;
  std::uint32_t merges_ = 0;
  std::unordered_map<std::uint64_t, Join> joins_;               // of left << 32 | right
  std::unordered_map<char32_t, std::uint32_t> single_entries_;  // of one character without prefix and suffix
};

// Learns which neighbours to join: again and again the two that are most often next to each other become one symbol.
// Source: Sennrich et al., "Neural machine translation of rare words with subword units" (2016).
struct CountedWord {
  std::vector<std::uint32_t> symbols;
  std::int64_t count;
};

using SymbolPair = std::pair<std::uint32_t, std::uint32_t>;

// At most `most` joins; the i-th makes the symbol first_new + i. Of neighbours that are as frequent, those of the lower
// left symbol go first, then those of the lower right one; what is seen once is not joined. So the result depends on
// the words and their counts alone, not on their order.
std::vector<SymbolPair> learn_byte_pairs(std::vector<CountedWord> words, std::uint32_t first_new, std::size_t most);

}  // namespace qkv::text
