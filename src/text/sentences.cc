// Splits a text into sentences.
#include "text/sentences.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "text/stages/unicode.h"

namespace qkv::text {
namespace {

constexpr std::u32string_view kEndMarks = U".!?\u2026\u203c\u2047\u2048\u2049\u0589\u061f\u06d4\u0964\u0965\u1362";
constexpr std::u32string_view kWideEndMarks = U"\u3002\uff01\uff1f\uff61";
constexpr std::u32string_view kStraightQuotes = U"\"'";
constexpr std::u32string_view kClosers = U")]}\u2019\u201d\u00bb\u203a\u300d\u300f\u3011\uff09";
constexpr std::u32string_view kOpeners =
    U"\"'([{\u2018\u201c\u201e\u00ab\u2039\u300c\u300e\u3010\uff08\u00bf\u00a1-\u2013\u2014";
constexpr std::u32string_view kInvertedMarks = U"\u00bf\u00a1";

// Short for what a name follows, and for what a number follows; in lower case.
constexpr std::u32string_view kBeforeNames[] = {
    U"mr",  U"mrs",  U"ms",   U"dr",  U"drs",       U"prof",     U"rev", U"hon", U"st",  U"gen", U"col", U"capt",
    U"lt",  U"sgt",  U"sen",  U"gov", U"pres",      U"messrs",   U"mt",  U"vs",  U"cf",  U"viz", U"al",  U"sr",
    U"sra", U"srta", U"sres", U"dra", U"do\u00f1a", U"d\u00f1a", U"lic", U"ing", U"sto", U"sta", U"avda"};
constexpr std::u32string_view kBeforeNumbers[] = {
    U"no", U"nos", U"fig", U"figs", U"vol", U"vols", U"p",   U"pp",       U"ch",       U"sec",      U"art",
    U"ed", U"ca",  U"cap", U"tel",  U"av",  U"c",    U"nro", U"n\u00fam", U"p\u00e1g", U"p\u00e1gs"};

bool is_one_of(std::u32string_view list, char32_t code) { return list.find(code) != std::u32string_view::npos; }

bool is_wide_end_mark(char32_t code) { return is_one_of(kWideEndMarks, code); }
bool is_lower(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t code) { return is_letter(code) && !is_lower(code) && lower_case(code).first != code; }
bool is_digit(char32_t code) { return code >= U'0' && code <= U'9'; }

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {
    for (std::size_t at = 0; at < text.size();) {
      const Decoded next = decode_utf8(text.substr(at));
      codes_.push_back(next.code);
      offsets_.push_back(at);
      at += next.size;
    }
    offsets_.push_back(text.size());
  }

  std::vector<std::string_view> split(SentenceBegin rule) const {
    std::vector<std::string_view> sentences;
    std::size_t begin = skip(0, is_white_space);
    for (std::size_t i = begin; i < codes_.size();) {
      if (!is_end_mark(codes_[i])) {
        ++i;
        continue;
      }
      const std::size_t marks_end = skip(i, is_end_mark);
      const std::size_t end = skip_closers(marks_end);
      if (ends_sentence(begin, i, marks_end, end, rule)) {
        add(sentences, begin, end);
        begin = skip(end, is_white_space);
      }
      i = end;
    }
    add(sentences, begin, codes_.size());
    return sentences;
  }

 private:
  static bool is_end_mark(char32_t code) { return is_one_of(kEndMarks, code) || is_wide_end_mark(code); }

  template <class F>
  std::size_t skip(std::size_t at, const F& what) const {
    while (at < codes_.size() && what(codes_[at])) ++at;
    return at;
  }

  // A straight quote closes where no word follows.
  std::size_t skip_closers(std::size_t at) const {
    for (; at < codes_.size(); ++at) {
      const bool quote = is_one_of(kStraightQuotes, codes_[at]);
      const bool word_follows = at + 1 < codes_.size() && (is_letter(codes_[at + 1]) || is_number(codes_[at + 1]));
      if (!is_one_of(kClosers, codes_[at]) && !(quote && !word_follows)) break;
    }
    return at;
  }

  // Whether the sentence from `begin` ends with the marks [mark, marks_end) and the closers up to `end`.
  bool ends_sentence(std::size_t begin, std::size_t mark, std::size_t marks_end, std::size_t end,
                     SentenceBegin rule) const {
    if (std::any_of(codes_.begin() + static_cast<std::ptrdiff_t>(mark),
                    codes_.begin() + static_cast<std::ptrdiff_t>(marks_end), is_wide_end_mark)) {
      return true;
    }
    const std::size_t next = skip(end, is_white_space);
    if (next == codes_.size()) return false;  // the text ends
    const std::size_t word = skip(next, [](char32_t code) { return is_one_of(kOpeners, code); });
    const char32_t first = word < codes_.size() ? codes_[word] : U' ';
    if (next == end) {
      if (is_one_of(kInvertedMarks, codes_[next])) return true;
      const bool after_word = mark >= begin + 2 && is_lower(codes_[mark - 1]) && is_letter(codes_[mark - 2]);
      const bool all_upper = next + 1 < codes_.size() && is_upper(codes_[next + 1]);
      return after_word && is_upper(codes_[next]) && !all_upper;
    }
    if (rule == SentenceBegin::not_lower_case && is_lower(first)) return false;
    const bool lone_period = marks_end == mark + 1 && codes_[mark] == U'.';
    return !lone_period || !is_abbreviation(begin, mark, first);
  }

  // Whether what is before the period at `period` is no word that ends a sentence.
  bool is_abbreviation(std::size_t begin, std::size_t period, char32_t next) const {
    std::size_t at = period;
    while (at > begin && (is_letter(codes_[at - 1]) || is_digit(codes_[at - 1]) || codes_[at - 1] == U'.')) --at;
    const std::u32string_view word = std::u32string_view(codes_).substr(at, period - at);
    if (word.empty()) return false;
    if (std::all_of(word.begin(), word.end(), is_digit)) return at == begin;  // the number of a list
    if (word.size() == 1 && is_upper(word[0])) return true;                   // an initial
    if (word.find(U'.') != std::u32string_view::npos) return has_short_parts(word);
    std::u32string lower;
    for (const char32_t code : word) lower += lower_case(code).first;
    const auto is_in = [&](const auto& list) {
      return std::find(std::begin(list), std::end(list), lower) != std::end(list);
    };
    return is_in(kBeforeNames) || (is_digit(next) && is_in(kBeforeNumbers));
  }

  // e.g, U.S, EE.UU
  static bool has_short_parts(std::u32string_view word) {
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t end = std::min(word.find(U'.', at), word.size());
      if (end - at > 2) return false;
      at = end + 1;
    }
    return true;
  }

  void add(std::vector<std::string_view>& sentences, std::size_t begin, std::size_t end) const {
    while (end > begin && is_white_space(codes_[end - 1])) --end;
    if (end > begin) sentences.push_back(text_.substr(offsets_[begin], offsets_[end] - offsets_[begin]));
  }

  std::string_view text_;
  std::u32string codes_;
  std::vector<std::size_t> offsets_;
};

}  // namespace

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = decode_utf8(text);
    if (!is_white_space(next.code)) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

bool ends_wide(std::string_view text) {
  return text.ends_with("\u3002") || text.ends_with("\uff01") || text.ends_with("\uff1f") || text.ends_with("\uff61");
}

std::vector<std::string_view> split_sentences(std::string_view text, SentenceBegin begin) {
  return Splitter(text).split(begin);
}

}  // namespace qkv::text
