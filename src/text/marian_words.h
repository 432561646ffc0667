// The words of Marian's tokenizer: a code of the target language, ">>fr<<", as it is, then all else as sentencepiece
// normalizes it.
#pragma once

#include "text/sentence_piece_normalizer.h"
#include "text/stages.h"

namespace qkv::text {

class MarianWords : public PreTokenizer {
 public:
  explicit MarianWords(SentencePieceNormalizer normalizer) : normalizer_(std::move(normalizer)) {}
  std::vector<Word> split(Characters& text) const override;

 private:
  SentencePieceNormalizer normalizer_;
};

// Whether a word is such a code: all other words begin with U+2581.
bool is_language_code(CharacterSpan word);

}  // namespace qkv::text
