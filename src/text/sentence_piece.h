// The unigram model of a SentencePiece file, whose pieces become the tokens of a vocabulary that lies beside it: pieces
// that it lacks are its unknown token, as the tokenizers of transformers have it. Source: Kudo, Richardson,
// "SentencePiece" (2018).
#pragma once

#include <vector>

#include "io/sentence_piece.h"
#include "text/stages.h"
#include "text/trie.h"

namespace qkv::text {

class SentencePiece : public Model {
 public:
  // std::invalid_argument if the vocabulary lacks the unknown token, or for a file of another kind than unigram.
  SentencePiece(io::SentencePieceFile file, Vocabulary vocabulary, std::string_view unknown_token);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void build_index() override;
  void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const override;

 protected:
  // The unknown token, if there is no other.
  const Vocabulary::Entry* entry_of(const std::string& piece) const;

 private:
  io::SentencePieceFile file_;
  Vocabulary vocabulary_;
  const Vocabulary::Entry* unknown_;
  std::vector<const Vocabulary::Entry*> entries_;  // of the pieces of the file
  std::vector<float> scores_;                      // likewise
  std::uint32_t unknown_piece_ = 0;
  float unknown_score_ = 0;
  Trie trie_;
};

}  // namespace qkv::text
