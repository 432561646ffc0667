// Unigram: of all ways to cut a word into pieces of the vocabulary, the one whose scores have the largest sum. Source:
// Kudo, "Subword regularization" (2018). Of tokenizer.json, and of a SentencePiece file.
#pragma once

#include <vector>

#include "io/sentence_piece.h"
#include "text/stages/stages.h"
#include "text/stages/trie.h"

namespace qkv::text {

struct UnigramOptions {
  std::int32_t unknown_id;
  bool byte_fallback = false;  // unknown characters are the tokens <0x00> to <0xFF> of their bytes
};

class Unigram : public Model {
 public:
  // The token with id i has the score scores[i]. std::invalid_argument if the unknown id is not in the vocabulary.
  Unigram(Vocabulary vocabulary, const std::vector<double>& scores, const UnigramOptions& options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const Vocabulary::Entry* unknown() const override { return unknown_; }
  void build_index() override;
  void add_to(Sha256& digest) const override;
  void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const override;

 private:
  void append_unknown(CharacterSpan word, const Piece& piece, std::vector<Piece>& pieces) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // of the entries in their order
  Trie trie_;
  const Vocabulary::Entry* unknown_;
  double unknown_score_;
  bool byte_fallback_;
};

// The unigram model of a SentencePiece file, whose pieces become the tokens of a separate vocabulary: pieces
// that it lacks are its unknown token, as the tokenizers of transformers have it. Source: Kudo, Richardson,
// "SentencePiece" (2018).
class SentencePiece : public Model {
 public:
  // std::invalid_argument if the vocabulary lacks the unknown token, or for a file of another kind than unigram.
  SentencePiece(io::SentencePieceFile file, Vocabulary vocabulary, std::string_view unknown_token);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const Vocabulary::Entry* unknown() const override { return unknown_; }
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
