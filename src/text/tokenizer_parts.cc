// Normalizes a text and splits it into words, around its added tokens.
#include "text/tokenizer_parts.h"

#include "core/stop.h"

namespace qkv::text {
namespace {

bool visit_words(const Tokenizer::Parts& parts, Characters text, const WordVisitor& visit) {
  const auto words = parts.pre_tokenizer ? parts.pre_tokenizer(text) : std::vector<Word>{{0, text.size()}};
  StopTurns turns;
  for (const Word& word : words) {
    turns.next();
    if (!visit(nullptr, CharacterSpan(text).subspan(word.begin, word.end - word.begin))) return false;
  }
  return true;
}

// Text without added tokens that are searched for as they are.
bool visit_between(const Tokenizer::Parts& parts, CharacterSpan raw, const WordVisitor& visit) {
  const Characters text = parts.normalizer ? parts.normalizer(raw) : Characters(raw.begin(), raw.end());
  for (const AddedTokens::Section& section : parts.added.split(text, true)) {
    const bool goes_on = section.token != nullptr
                             ? visit(section.token, section.text)
                             : visit_words(parts, Characters(section.text.begin(), section.text.end()), visit);
    if (!goes_on) return false;
  }
  return true;
}

}  // namespace

void for_each_word(const Tokenizer::Parts& parts, std::string_view utf8, const WordVisitor& visit) {
  const Characters text = to_characters(utf8);
  for (const AddedTokens::Section& section : parts.added.split(text, false)) {
    const bool goes_on =
        section.token != nullptr ? visit(section.token, section.text) : visit_between(parts, section.text, visit);
    if (!goes_on) return;
  }
}

}  // namespace qkv::text
