// Splits text at white space and punctuation.
#include "text/bert_pre_tokenizer.h"

#include "core/stop.h"

namespace qkv::text {
namespace {

// All of ASCII that is neither a control, a space, a letter nor a digit counts, symbols such as $ and + included.
bool ends_word(char32_t code) {
  if (code >= 0x80) return is_punctuation(code);
  return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
         (code >= 123 && code <= 126);
}

}  // namespace

std::vector<Word> BertPreTokenizer::split(Characters& text) const {
  std::vector<Word> words;
  std::size_t begin = 0;
  StopTurns turns;
  for (std::size_t i = 0; i < text.size(); ++i) {
    turns.next();
    const bool alone = ends_word(text[i].code);
    if (!alone && !is_white_space(text[i].code)) continue;
    if (begin < i) words.push_back({begin, i});
    if (alone) words.push_back({i, i + 1});
    begin = i + 1;
  }
  if (begin < text.size()) words.push_back({begin, text.size()});
  return words;
}

}  // namespace qkv::text
