// The pre-tokenizers of byte-pair and unigram vocabularies, and BERT's.
#include "text/stages/pre_tokenizers.h"

#include <string_view>
#include <utility>

#include "core/stop.h"
#include "text/stages/byte_alphabet.h"
#include "text/stages/normalizers.h"
#include "text/stages/split.h"

namespace qkv::text {

PreTokenizer byte_level_words(bool add_prefix_space, bool use_regex) {
  return [add_prefix_space, use_regex](Characters& text) {
    constexpr std::u32string_view kSpace = U" ";
    if (add_prefix_space && !text.empty() && text.front().code != ' ') text = prepended(kSpace, text);
    std::vector<Word> words;
    Characters bytes;
    bytes.reserve(text.size());
    StopTurns turns;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = use_regex ? end_of_gpt2_word(text, begin) : text.size();
      const std::size_t first = bytes.size();
      for (; begin < end; ++begin) {
        turns.next();
        std::string utf8;
        append_utf8(utf8, text[begin].code);
        for (const char byte : utf8) {
          bytes.push_back({kByteCharacters[static_cast<std::uint8_t>(byte)], text[begin].begin, text[begin].end});
        }
      }
      words.push_back({first, bytes.size()});
    }
    text = std::move(bytes);
    return words;
  };
}

PreTokenizer metaspace_words(char32_t replacement, PrependSpace prepend, bool split) {
  return [replacement, prepend, split](Characters& text) {
    for (Character& c : text) {
      if (c.code == ' ') c.code = replacement;
    }
    const bool wanted =
        prepend == PrependSpace::always || (prepend == PrependSpace::first && !text.empty() && text[0].begin == 0);
    if (wanted && !text.empty() && text.front().code != replacement) {
      text = prepended(std::u32string_view(&replacement, 1), text);
    }
    std::vector<Word> words;
    StopTurns turns;
    for (std::size_t i = 0, begin = 0; i < text.size(); ++i) {
      turns.next();
      const bool ends = i + 1 == text.size() || (split && text[i + 1].code == replacement);
      if (!ends) continue;
      words.push_back({begin, i + 1});
      begin = i + 1;
    }
    return words;
  };
}

PreTokenizer whitespace_words(bool punctuation_apart) {
  return [punctuation_apart](Characters& text) {
    std::vector<Word> words;
    StopTurns turns;
    for (std::size_t i = 0; i < text.size(); ++i) {
      turns.next();
      if (is_white_space(text[i].code)) continue;
      const bool joins = !words.empty() && words.back().end == i &&
                         (!punctuation_apart || is_word_character(text[i].code) == is_word_character(text[i - 1].code));
      if (joins) {
        words.back().end = i + 1;
      } else {
        words.push_back({i, i + 1});
      }
    }
    return words;
  };
}

PreTokenizer in_turn(std::vector<PreTokenizer> steps) {
  return [steps = std::move(steps)](Characters& text) {
    std::vector<Word> words{{0, text.size()}};
    if (text.empty()) words.clear();
    for (const PreTokenizer& step : steps) {
      Characters rewritten;
      std::vector<Word> finer;
      for (const Word& word : words) {
        Characters part(text.begin() + static_cast<std::ptrdiff_t>(word.begin),
                        text.begin() + static_cast<std::ptrdiff_t>(word.end));
        const std::size_t before = rewritten.size();
        for (const Word& within : step(part)) finer.push_back({before + within.begin, before + within.end});
        rewritten.insert(rewritten.end(), part.begin(), part.end());
      }
      text = std::move(rewritten);
      words = std::move(finer);
    }
    return words;
  };
}

std::vector<Word> bert_words(const Characters& text) {
  std::vector<Word> words;
  std::size_t begin = 0;
  StopTurns turns;
  for (std::size_t i = 0; i < text.size(); ++i) {
    turns.next();
    const bool alone = end_of_punctuation(text, i) > i;
    if (!alone && !is_white_space(text[i].code)) continue;
    if (begin < i) words.push_back({begin, i});
    if (alone) words.push_back({i, i + 1});
    begin = i + 1;
  }
  if (begin < text.size()) words.push_back({begin, text.size()});
  return words;
}

}  // namespace qkv::text
