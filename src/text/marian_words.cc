// Takes a language code off the beginning of a text.
#include "text/marian_words.h"

#include <algorithm>

namespace qkv::text {
namespace {

// The length of the code that the text begins with: from ">>" to the first "<<". 0: there is none.
std::size_t code_length(CharacterSpan text) {
  const auto are_both = [](char32_t bracket) {
    return [bracket](const Character& a, const Character& b) { return a.code == bracket && b.code == bracket; };
  };
  if (std::ranges::adjacent_find(text, are_both('>')) != text.begin()) return 0;
  const auto end = std::ranges::adjacent_find(text, are_both('<'));
  return end == text.end() ? 0 : static_cast<std::size_t>(end - text.begin()) + 2;
}

}  // namespace

std::vector<Word> MarianWords::split(Characters& text) const {
  const std::size_t code = text.empty() ? 0 : code_length(text);
  const Characters normalized = normalizer_.normalize(CharacterSpan(text).subspan(code));
  text.resize(code);
  text.insert(text.end(), normalized.begin(), normalized.end());
  std::vector<Word> words;
  if (code > 0) words.push_back({0, code});
  if (!normalized.empty()) words.push_back({code, text.size()});
  return words;
}

bool is_language_code(CharacterSpan word) { return word.front().code == '>'; }

}  // namespace qkv::text
