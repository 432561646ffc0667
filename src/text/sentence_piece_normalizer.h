// What sentencepiece does to a text before it cuts it into pieces: the longest string at each place that has a
// replacement is replaced, spaces become U+2581, one begins the text.
#pragma once

#include "io/sentence_piece.h"
#include "text/charsmap.h"
#include "text/stages.h"
#include "text/trie.h"

namespace qkv::text {

class SentencePieceNormalizer : public Normalizer {
 public:
  // std::invalid_argument for a charsmap that breaks a rule.
  explicit SentencePieceNormalizer(const io::SentencePieceFile& file);
  // Empty for a text of spaces alone, if spaces at the ends go.
  Characters normalize(CharacterSpan text) const override;

 private:
  // Appends what the beginning of a text becomes. Returns how many characters of it that was.
  std::size_t append_first(CharacterSpan text, Characters& result) const;

  Charsmap rules_;
  Trie kept_;  // pieces that the user defined stay as they are
  bool single_spaces_;
};

}  // namespace qkv::text
