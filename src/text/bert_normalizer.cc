#include "text/bert_normalizer.h"

#include <algorithm>

namespace qkv::text {
namespace {

// The blocks that BERT calls Chinese; Kana and Hangul are written in words and not among them.
bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

// Brings decomposed characters into canonical order, removes nonspacing marks and hands the rest on. Runs of combining
// characters wait here until the next character that is none.
class AccentStripper {
 public:
  template <class Emit>
  void push(const Character& c, const Emit& emit) {
    const Decomposition parts = decompose(c.code);
    for (int i = 0; i < parts.size; ++i) {
      const int order = combining_class(parts.codes[i]);
      if (order == 0) flush(emit);
      waiting_.push_back({parts.codes[i], order, i == 0});
      if (i == 0) sources_.push_back(c);
    }
  }

  template <class Emit>
  void flush(const Emit& emit) {
    if (waiting_.size() > 1) std::ranges::stable_sort(waiting_, {}, &Part::order);
    // Where reordering moved a part over the border of two characters, places are dealt out in order: each part that
    // began a character takes the next one's place.
    std::size_t next = 0;
    for (const Part& part : waiting_) {
      if (part.begins_character) place_ = sources_[next++];
      if (!is_nonspacing_mark(part.code)) emit(Character{part.code, place_.begin, place_.end});
    }
    waiting_.clear();
    sources_.clear();
  }

 private:
  struct Part {
    char32_t code;
    int order;
    bool begins_character;
  };
  std::vector<Part> waiting_;
  Characters sources_;  // the characters that begin in waiting_
  Character place_{};   // of the part handed on last
};

}  // namespace

Characters BertNormalizer::normalize(CharacterSpan text) const {
  Characters result;
  result.reserve(text.size());
  AccentStripper accents;

  const auto lower = [&](Character c) {
    if (!options_.lowercase) {
      result.push_back(c);
      return;
    }
    const LowerCase small = lower_case(c.code);
    result.push_back({small.first, c.begin, c.end});
    if (small.second != 0) result.push_back({small.second, c.begin, c.end});
  };
  const auto strip = [&](const Character& c) {
    if (options_.strip_accents) {
      accents.push(c, lower);
    } else {
      lower(c);
    }
  };

  for (Character c : text) {
    if (options_.clean_text) {
      if (c.code == 0 || c.code == kReplacement) continue;
      const bool tab_or_line = c.code == '\t' || c.code == '\n' || c.code == '\r';
      if (!tab_or_line && is_control_or_format(c.code)) continue;
      if (is_white_space(c.code)) c.code = ' ';
    }
    if (c.code < 0x80) {  // needs no table
      accents.flush(lower);
      if (options_.lowercase && c.code >= 'A' && c.code <= 'Z') c.code += 'a' - 'A';
      result.push_back(c);
    } else if (options_.handle_chinese_chars && is_chinese(c.code)) {
      strip({' ', c.begin, c.end});
      strip(c);
      strip({' ', c.begin, c.end});
    } else {
      strip(c);
    }
  }
  accents.flush(lower);
  return result;
}

}  // namespace qkv::text
