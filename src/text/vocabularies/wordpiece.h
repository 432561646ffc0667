// WordPiece: the longest piece of the vocabulary that the word begins with, then the longest one that continues it, and
// so on. A word that cannot be cut so, or that is too long, is one unknown token.
// Source: Wu et al., "Google's neural machine translation system" (2016); Devlin et al., "BERT" (2018).
#pragma once

#include "text/stages/stages.h"
#include "text/stages/trie.h"

namespace qkv::text {

struct WordPieceOptions {
  std::string unknown_token;
  std::string continuing_prefix;  // of pieces that do not begin a word
  std::size_t max_word_characters;
};

class WordPiece : public Model {
 public:
  // std::invalid_argument if the unknown token is not in the vocabulary.
  WordPiece(Vocabulary vocabulary, const WordPieceOptions& options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const Vocabulary::Entry* unknown() const override { return unknown_; }
  std::string_view continuing_prefix() const override { return continuing_prefix_; }
  void build_index() override;
  void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const override;

 private:
  Vocabulary vocabulary_;
  Trie trie_;
  std::string continuing_prefix_;
  Trie::Node continuing_ = Trie::kNone;  // the node of the prefix
  const Vocabulary::Entry* unknown_;
  std::size_t max_word_characters_;
};

}  // namespace qkv::text
