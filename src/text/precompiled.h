// The normalizer "Precompiled" of tokenizer.json: the rules of a SentencePiece normalizer, as the `tokenizers` library
// applies them. sentencepiece itself applies them otherwise (sentence_piece_normalizer.h).
#pragma once

#include "text/charsmap.h"
#include "text/stages.h"

namespace qkv::text {

// A cluster (clusters.h) of less than six bytes that begins with a string that has a replacement becomes that of the
// shortest such string, whole; else its characters are replaced one by one.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap rules) : rules_(std::move(rules)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  bool replace(CharacterSpan part, Characters& result) const;

  Charsmap rules_;
};

}  // namespace qkv::text
