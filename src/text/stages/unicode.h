// Properties of code points for the stages of a tokenizer. Models were trained with the tables of the `tokenizers`
// library, which come from several versions of Unicode: categories from 8.0, canonical decomposition and combining
// classes from 9.0, words, letters and numbers from 16.0, lower case from 17.0. The answers here are those, whatever
// the version of utf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv::text {

inline constexpr char32_t kReplacement = 0xFFFD;

bool is_white_space(char32_t code);        // property White_Space
bool is_control_or_format(char32_t code);  // categories Cc, Cf and Co
bool is_nonspacing_mark(char32_t code);    // category Mn
bool is_punctuation(char32_t code);        // categories P*
bool is_word_character(char32_t code);     // \w of a regular expression
bool is_letter(char32_t code);             // categories L*
bool is_number(char32_t code);             // categories N*
bool is_mark(char32_t code);               // categories M* of Unicode 9.0
int combining_class(char32_t code);

// The full decomposition (the code point itself if it has none), canonical or also of compatible characters.
enum class Equivalence { canonical, compatible };
struct Decomposition {
  char32_t codes[18];  // U+FDFA has as many
  int size;
};
Decomposition decompose(char32_t code, Equivalence equivalence = Equivalence::canonical);

// The code point that is canonically equivalent to the two; 0: none.
char32_t compose(char32_t first, char32_t second);

// Full lower case without context: one code point, or i and U+0307 for U+0130.
struct LowerCase {
  char32_t first;
  char32_t second;  // 0: none
};
LowerCase lower_case(char32_t code);

// The code point at the beginning of non-empty `bytes`, and how many bytes it takes. A byte sequence that is not UTF-8
// is U+FFFD for each maximal part of a valid sequence (Unicode, section 3.9).
struct Decoded {
  char32_t code;
  std::size_t size;
};
Decoded decode_utf8(std::string_view bytes);

void append_utf8(std::string& text, char32_t code);

// The code points of text known to be UTF-8.
std::u32string to_code_points(std::string_view utf8);

}  // namespace qkv::text
