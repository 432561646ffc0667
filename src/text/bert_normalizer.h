// BERT's clean-up of text: control characters go, every white space becomes a space, Chinese characters become words,
// accents go, capitals become small.
#pragma once

#include "text/stages.h"

namespace qkv::text {

struct BertNormalizerOptions {
  bool clean_text = true;            // remove controls, formats, U+0000 and U+FFFD; white space to U+0020
  bool handle_chinese_chars = true;  // a space on both sides of each CJK ideograph
  bool strip_accents = true;         // decompose, then remove nonspacing marks
  bool lowercase = true;
};

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options) : options_(options) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  BertNormalizerOptions options_;
};

}  // namespace qkv::text
