// Unicode's normalization forms NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15), with offsets.
#pragma once

#include "text/stages.h"

namespace qkv::text {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Spans are those of the `tokenizers` library: the first part of a decomposed character takes its span, the others
// share that of the character before them; a composed one has the span of its first part.
Characters to_form(CharacterSpan text, UnicodeForm form);

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}
  Characters normalize(CharacterSpan text) const override { return to_form(text, form_); }

 private:
  UnicodeForm form_;
};

}  // namespace qkv::text
