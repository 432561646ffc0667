// Cuts text at matches, and matches by hand what well-known regular expressions say.
#include "text/stages/split.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/stop.h"

namespace qkv::text {
namespace {

enum class Kind { space, letter, number, other };

Kind kind_of(char32_t code) {
  if (is_white_space(code)) return Kind::space;
  if (is_letter(code)) return Kind::letter;
  return is_number(code) ? Kind::number : Kind::other;
}

bool is_line_end(char32_t code) { return code == '\r' || code == '\n'; }

// Behind the characters from `at` on that are `kind`, at most so many.
std::size_t end_of_kind(CharacterSpan text, std::size_t at, Kind kind, std::size_t most = SIZE_MAX) {
  const std::size_t end = most < text.size() - at ? at + most : text.size();
  while (at < end && kind_of(text[at].code) == kind) ++at;
  return at;
}

// ASCII letters of contractions in both cases, for (?i: ...) of Oniguruma, where U+017F is an s, too.
char32_t small_letter(char32_t code) {
  if (code >= 'A' && code <= 'Z') return code + ('a' - 'A');
  return code == 0x17F ? U's' : code;
}
char32_t same_letter(char32_t code) { return code; }

// 's|'t|'re|'ve|'m|'ll|'d
std::size_t end_of_contraction(CharacterSpan text, std::size_t begin, char32_t (*letter)(char32_t)) {
  if (text[begin].code != '\'') return begin;
  for (const std::u32string_view ending : {U"s", U"t", U"re", U"ve", U"m", U"ll", U"d"}) {
    const bool found = text.size() - begin > ending.size() &&
                       std::equal(ending.begin(), ending.end(), text.begin() + static_cast<std::ptrdiff_t>(begin + 1),
                                  [&](char32_t wanted, const Character& c) { return letter(c.code) == wanted; });
    if (found) return begin + 1 + ending.size();
  }
  return begin;
}

// \s+(?!\S)|\s+ : the last white space before a word is left to it, unless it is the only one.
std::size_t end_of_spaces(CharacterSpan text, std::size_t begin) {
  const std::size_t end = end_of_kind(text, begin, Kind::space);
  return end < text.size() && end - begin > 1 ? end - 1 : end;
}

// kGpt4Expression and kQwenExpression: numbers have so many digits at most.
std::size_t end_of_gpt4_word(CharacterSpan text, std::size_t begin, std::size_t digits) {
  if (const std::size_t end = end_of_contraction(text, begin, small_letter); end > begin) return end;
  const Kind first = kind_of(text[begin].code);
  if (first == Kind::letter) return end_of_kind(text, begin, Kind::letter);
  if (first == Kind::number) return end_of_kind(text, begin, Kind::number, digits);
  const bool more = begin + 1 < text.size();
  if (more && !is_line_end(text[begin].code) && kind_of(text[begin + 1].code) == Kind::letter) {
    return end_of_kind(text, begin + 1, Kind::letter);
  }
  const std::size_t others = begin + (text[begin].code == ' ' && more ? 1 : 0);
  if (std::size_t end = end_of_kind(text, others, Kind::other); end > others) {
    while (end < text.size() && is_line_end(text[end].code)) ++end;
    return end;
  }
  const std::size_t end = end_of_kind(text, begin, Kind::space);
  for (std::size_t last = end; last > begin; --last) {
    if (is_line_end(text[last - 1].code)) return last;
  }
  return end_of_spaces(text, begin);
}

template <std::size_t digits>
std::size_t end_of_gpt4_word(CharacterSpan text, std::size_t begin) {
  return end_of_gpt4_word(text, begin, digits);
}

struct Expression {
  std::string_view text;
  std::size_t (*matcher)(CharacterSpan text, std::size_t begin);
};
constexpr Expression kExpressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", end_of_gpt2_word},
    {kGpt4Expression, end_of_gpt4_word<3>},
    {kQwenExpression, end_of_gpt4_word<1>}};

}  // namespace

std::size_t end_of_gpt2_word(CharacterSpan text, std::size_t begin) {
  if (const std::size_t end = end_of_contraction(text, begin, same_letter); end > begin) return end;
  const std::size_t at = begin + (text[begin].code == ' ' && begin + 1 < text.size() ? 1 : 0);
  const Kind kind = kind_of(text[at].code);
  return kind == Kind::space ? end_of_spaces(text, begin) : end_of_kind(text, at, kind);
}

std::optional<Matcher> matcher_of_expression(std::string_view expression) {
  const auto found = std::ranges::find(kExpressions, expression, &Expression::text);
  return found == std::end(kExpressions) ? std::nullopt : std::optional<Matcher>(found->matcher);
}

Matcher matcher_of_string(std::u32string wanted) {
  return [wanted = std::move(wanted)](CharacterSpan text, std::size_t begin) {
    const bool found = text.size() - begin >= wanted.size() &&
                       std::equal(wanted.begin(), wanted.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
                                  [](char32_t code, const Character& c) { return c.code == code; });
    return begin + (found ? wanted.size() : 0);
  };
}

namespace {

// Rust's char::is_numeric has the numbers of Unicode 17.
bool is_numeric(char32_t code) {
  return is_number(code) || (code >= 0x11DE0 && code <= 0x11DE9) || (code >= 0x16FF4 && code <= 0x16FF6);
}

// All of ASCII that is neither a control, a space, a letter nor a digit counts, symbols such as $ and + included.
bool ends_word(char32_t code) {
  if (code >= 0x80) return is_punctuation(code);
  return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
         (code >= 123 && code <= 126);
}

}  // namespace

std::size_t end_of_digit(CharacterSpan text, std::size_t begin) {
  return begin + (is_numeric(text[begin].code) ? 1 : 0);
}

std::size_t end_of_punctuation(CharacterSpan text, std::size_t begin) {
  return begin + (ends_word(text[begin].code) ? 1 : 0);
}

namespace {

struct Stretch {
  Word word;
  bool separates;
};

// The whole text in parts.
std::vector<Stretch> stretches_of(CharacterSpan text, const Matcher& matcher, Separators separators) {
  const bool matches_separate = separators == Separators::matches;
  std::vector<Stretch> parts;
  StopTurns turns;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    turns.next();
    const std::size_t end = matcher(text, at);
    if (end == at) {
      ++at;
      continue;
    }
    if (done < at) parts.push_back({{done, at}, !matches_separate});
    parts.push_back({{at, end}, matches_separate});
    done = at = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, !matches_separate});
  return parts;
}

}  // namespace

PreTokenizer split_at(Matcher matcher, SeparatorBecomes become, Separators separators) {
  return [matcher = std::move(matcher), become, separators](Characters& text) {
    const std::vector<Stretch> parts = stretches_of(text, matcher, separators);
    std::vector<Word> words;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& [word, separates] = parts[i];
      if (separates && become == SeparatorBecomes::nothing) continue;
      const auto joins = [&](bool before) {
        switch (become) {
          case SeparatorBecomes::end_of_word:
            return separates && !before;
          case SeparatorBecomes::beginning_of_word:
            return !separates && before;
          case SeparatorBecomes::one_word_with_others:
            return separates == before;
          default:
            return false;
        }
      };
      if (i > 0 && joins(parts[i - 1].separates)) {
        words.back().end = word.end;
      } else {
        words.push_back(word);
      }
    }
    return words;
  };
}

}  // namespace qkv::text
