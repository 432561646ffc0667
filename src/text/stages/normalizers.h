// The normalizers: what rewrites text before it is cut into words.
#pragma once

#include <string>
#include <vector>

#include "io/sentence_piece.h"
#include "text/stages/charsmap.h"
#include "text/stages/stages.h"

namespace qkv::text {

Characters to_lower(CharacterSpan text);

// Removes every mark; those inside of composed characters stay.
Characters strip_accents(CharacterSpan text);

// Removes white space at the ends.
Normalizer strip_space(bool left, bool right);

// Puts something before a text that is not empty, with the span of its first character.
Characters prepended(std::u32string_view beginning, CharacterSpan text);

// One string, which is not empty, for another, with the span of its last character.
Normalizer replace(std::u32string from, std::u32string to);

// Two or more spaces become one string, with the span of the last of them.
Normalizer replace_spaces(std::u32string to);

// One after the other.
Normalizer in_turn(std::vector<Normalizer> steps);

// Unicode's normalization forms NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15), with offsets.
enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// Spans are those of the `tokenizers` library: the first part of a decomposed character takes its span, the others
// share that of the character before them; a composed one has the span of its first part.
Characters to_form(CharacterSpan text, UnicodeForm form);

// BERT's clean-up of text: control characters go, every white space becomes a space, Chinese characters become words,
// accents go, capitals become small.
struct BertNormalizerOptions {
  bool clean_text = true;            // remove controls, formats, U+0000 and U+FFFD; white space to U+0020
  bool handle_chinese_chars = true;  // a space on both sides of each CJK ideograph
  bool strip_accents = true;         // decompose, then remove nonspacing marks
  bool lowercase = true;
};
Normalizer bert_normalizer(const BertNormalizerOptions& options = {});

// The normalizer "Precompiled" of tokenizer.json: the rules of a SentencePiece normalizer, as the `tokenizers` library
// applies them. sentencepiece itself applies them otherwise (below). A grapheme cluster of less than six bytes that
// begins with a string that has a replacement becomes that of the shortest such string, whole; else its characters are
// replaced one by one.
Normalizer precompiled(Charsmap rules);

// sentencepiece's normalization of a text before it is cut into pieces: the longest string at each place that has a
// replacement is replaced, spaces become U+2581, one begins the text. Empty for a text of spaces alone, if spaces at
// the ends go. std::invalid_argument for a charsmap that breaks a rule.
Normalizer sentence_piece_normalizer(const io::SentencePieceFile& file);

}  // namespace qkv::text
