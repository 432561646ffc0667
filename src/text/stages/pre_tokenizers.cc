// The pre-tokenizers of byte-pair and unigram vocabularies, and BERT's.
#include "text/stages/pre_tokenizers.h"

#include <string_view>

#include "core/stop.h"
#include "text/stages/byte_alphabet.h"
#include "text/stages/normalizers.h"
#include "text/stages/split.h"

namespace qkv::text {
std::vector<Word> ByteLevel::split(Characters& text) const {
  constexpr std::u32string_view kSpace = U" ";
  if (add_prefix_space_ && !text.empty() && text.front().code != ' ') text = prepended(kSpace, text);
  std::vector<Word> words;
  Characters bytes;
  bytes.reserve(text.size());
  StopTurns turns;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = use_regex_ ? end_of_gpt2_word(text, begin) : text.size();
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
}

std::vector<Word> Metaspace::split(Characters& text) const {
  for (Character& c : text) {
    if (c.code == ' ') c.code = replacement_;
  }
  const bool wanted =
      prepend_ == Prepend::always || (prepend_ == Prepend::first && !text.empty() && text[0].begin == 0);
  if (wanted && !text.empty() && text.front().code != replacement_) {
    text = prepended(std::u32string_view(&replacement_, 1), text);
  }
  std::vector<Word> words;
  StopTurns turns;
  for (std::size_t i = 0, begin = 0; i < text.size(); ++i) {
    turns.next();
    const bool ends = i + 1 == text.size() || (split_ && text[i + 1].code == replacement_);
    if (!ends) continue;
    words.push_back({begin, i + 1});
    begin = i + 1;
  }
  return words;
}

std::vector<Word> Whitespace::split(Characters& text) const {
  std::vector<Word> words;
  StopTurns turns;
  for (std::size_t i = 0; i < text.size(); ++i) {
    turns.next();
    if (is_white_space(text[i].code)) continue;
    const bool joins = !words.empty() && words.back().end == i &&
                       (!punctuation_apart_ || is_word_character(text[i].code) == is_word_character(text[i - 1].code));
    if (joins) {
      words.back().end = i + 1;
    } else {
      words.push_back({i, i + 1});
    }
  }
  return words;
}

std::vector<Word> PreTokenizerSequence::split(Characters& text) const {
  std::vector<Word> words{{0, text.size()}};
  if (text.empty()) words.clear();
  for (const auto& step : steps_) {
    Characters rewritten;
    std::vector<Word> finer;
    for (const Word& word : words) {
      Characters part(text.begin() + static_cast<std::ptrdiff_t>(word.begin),
                      text.begin() + static_cast<std::ptrdiff_t>(word.end));
      const std::size_t before = rewritten.size();
      for (const Word& within : step->split(part)) finer.push_back({before + within.begin, before + within.end});
      rewritten.insert(rewritten.end(), part.begin(), part.end());
    }
    text = std::move(rewritten);
    words = std::move(finer);
  }
  return words;
}

std::vector<Word> BertPreTokenizer::split(Characters& text) const {
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
