// The pre-tokenizers of byte-pair and unigram vocabularies.
#pragma once

#include <memory>
#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

// Words, numbers and the rest, each with the space before it; then every byte becomes a character (byte_alphabet.h).
class ByteLevel : public PreTokenizer {
 public:
  // `add_prefix_space`: a text that does not begin with a space gets one. `use_regex`: false leaves it in one piece.
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}
  std::vector<Word> split(Characters& text) const override;

 private:
  bool add_prefix_space_;
  bool use_regex_;
};

// A space becomes a visible character, which begins a word and perhaps also the text.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };  // first: at the beginning of the whole text only
  Metaspace(char32_t replacement, Prepend prepend, bool split)
      : replacement_(replacement), prepend_(prepend), split_(split) {}
  std::vector<Word> split(Characters& text) const override;

 private:
  char32_t replacement_;
  Prepend prepend_;
  bool split_;
};

// White space ends a word and is dropped; `punctuation_apart`: so do changes between word characters and all others.
class Whitespace : public PreTokenizer {
 public:
  explicit Whitespace(bool punctuation_apart) : punctuation_apart_(punctuation_apart) {}
  std::vector<Word> split(Characters& text) const override;

 private:
  bool punctuation_apart_;
};

// Each cuts the words of the one before.
class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  std::vector<Word> split(Characters& text) const override;

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

// Words end at white space, which is dropped, and around punctuation, each character of which is a word.
class BertPreTokenizer : public PreTokenizer {
 public:
  std::vector<Word> split(Characters& text) const override;
};

}  // namespace qkv::text
