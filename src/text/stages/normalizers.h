// The normalizers: what rewrites text before it is cut into words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/sentence_piece.h"
#include "text/stages/charsmap.h"
#include "text/stages/stages.h"
#include "text/stages/trie.h"

namespace qkv::text {

Characters to_lower(CharacterSpan text);

class Lowercase : public Normalizer {
 public:
  Characters normalize(CharacterSpan text) const override { return to_lower(text); }
};

// Removes every mark; those inside of composed characters stay.
class StripAccents : public Normalizer {
 public:
  Characters normalize(CharacterSpan text) const override;
};

// Removes white space at the ends.
class StripSpace : public Normalizer {
 public:
  StripSpace(bool left, bool right) : left_(left), right_(right) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  bool left_;
  bool right_;
};

// Puts something before a text that is not empty, with the span of its first character.
Characters prepended(std::u32string_view beginning, CharacterSpan text);

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::u32string beginning) : beginning_(std::move(beginning)) {}
  Characters normalize(CharacterSpan text) const override { return prepended(beginning_, text); }

 private:
  std::u32string beginning_;
};

// One string for another, with the span of its last character.
class Replace : public Normalizer {
 public:
  // `from` is not empty.
  Replace(std::u32string from, std::u32string to) : from_(std::move(from)), to_(std::move(to)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::u32string from_;
  std::u32string to_;
};

// Two or more spaces become one string, with the span of the last of them.
class ReplaceSpaces : public Normalizer {
 public:
  explicit ReplaceSpaces(std::u32string to) : to_(std::move(to)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::u32string to_;
};

// One after the other.
class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

// Unicode's normalization forms NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15), with offsets.
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

// BERT's clean-up of text: control characters go, every white space becomes a space, Chinese characters become words,
// accents go, capitals become small.
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

// The normalizer "Precompiled" of tokenizer.json: the rules of a SentencePiece normalizer, as the `tokenizers` library
// applies them. sentencepiece itself applies them otherwise (SentencePieceNormalizer). A grapheme cluster of less than
// six bytes that begins with a string that has a replacement becomes that of the shortest such string, whole; else its
// characters are replaced one by one.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap rules) : rules_(std::move(rules)) {}
  Characters normalize(CharacterSpan text) const override;

 private:
  bool replace(CharacterSpan part, Characters& result) const;

  Charsmap rules_;
};

// What sentencepiece does to a text before it cuts it into pieces: the longest string at each place that has a
// replacement is replaced, spaces become U+2581, one begins the text.
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
