// The pre-tokenizers of byte-pair and unigram vocabularies, and BERT's.
#pragma once

#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

// Words, numbers and the rest, each with the space before it; then every byte becomes a character (byte_alphabet.h).
// `add_prefix_space`: a text that does not begin with a space gets one. `use_regex`: false leaves it in one piece.
PreTokenizer byte_level_words(bool add_prefix_space, bool use_regex);

// A space becomes a visible character, which begins a word and perhaps also the text.
enum class PrependSpace { always, first, never };  // first: at the beginning of the whole text only
PreTokenizer metaspace_words(char32_t replacement, PrependSpace prepend, bool split);

// White space ends a word and is dropped; `punctuation_apart`: so do changes between word characters and all others.
PreTokenizer whitespace_words(bool punctuation_apart);

// Each cuts the words of the one before.
PreTokenizer in_turn(std::vector<PreTokenizer> steps);

// Words end at white space, which is dropped, and around punctuation, each character of which is a word.
std::vector<Word> bert_words(const Characters& text);

}  // namespace qkv::text
