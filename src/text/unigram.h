// Unigram: of all ways to cut a word into pieces of the vocabulary, the one whose scores have the largest sum.
// Source: Kudo, "Subword regularization" (2018).
#pragma once

#include <vector>

#include "text/stages.h"
#include "text/trie.h"

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
  void build_index() override;
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

}  // namespace qkv::text
