// The normalizers of tokenizer.json, and that of sentencepiece.
#include "text/stages/normalizers.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/stop.h"
#include "text/stages/characters.h"
#include "text/stages/trie.h"
#include "text/stages/unicode_tables.h"

namespace qkv::text {

Characters to_lower(CharacterSpan text) {
  Characters result;
  result.reserve(text.size());
  StopTurns turns;
  for (const Character& c : text) {
    turns.next();
    if (c.code < 0x80) {  // needs no table
      const bool capital = c.code >= 'A' && c.code <= 'Z';
      result.push_back({capital ? c.code + ('a' - 'A') : c.code, c.begin, c.end});
      continue;
    }
    const LowerCase small = lower_case(c.code);
    result.push_back({small.first, c.begin, c.end});
    if (small.second != 0) result.push_back({small.second, c.begin, c.end});
  }
  return result;
}

Characters strip_accents(CharacterSpan text) {
  Characters result(text.begin(), text.end());
  std::erase_if(result, [](const Character& c) { return is_mark(c.code); });
  return result;
}

Normalizer strip_space(bool left, bool right) {
  return [left, right](CharacterSpan text) -> Characters {
    std::size_t begin = 0, end = text.size();
    while (left && begin < end && is_white_space(text[begin].code)) ++begin;
    while (right && begin < end && is_white_space(text[end - 1].code)) --end;
    return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
  };
}

Characters prepended(std::u32string_view beginning, CharacterSpan text) {
  Characters result;
  if (text.empty()) return result;
  result.reserve(beginning.size() + text.size());
  for (const char32_t code : beginning) result.push_back({code, text.front().begin, text.front().end});
  result.insert(result.end(), text.begin(), text.end());
  return result;
}

Normalizer replace(std::u32string from, std::u32string to) {
  return [from = std::move(from), to = std::move(to)](CharacterSpan text) {
    Characters result;
    result.reserve(text.size());
    StopTurns turns;
    for (std::size_t at = 0; at < text.size();) {
      turns.next();
      const bool found = text.size() - at >= from.size() &&
                         std::equal(from.begin(), from.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                                    [](char32_t code, const Character& c) { return c.code == code; });
      if (!found) {
        result.push_back(text[at++]);
        continue;
      }
      at += from.size();
      for (const char32_t code : to) result.push_back({code, text[at - 1].begin, text[at - 1].end});
    }
    return result;
  };
}

Normalizer replace_spaces(std::u32string to) {
  return [to = std::move(to)](CharacterSpan text) {
    Characters result;
    result.reserve(text.size());
    StopTurns turns;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      turns.next();
      while (end < text.size() && text[end].code == ' ') ++end;
      if (end - at < 2) {
        end = at + 1;
        result.push_back(text[at]);
        continue;
      }
      for (const char32_t code : to) result.push_back({code, text[end - 1].begin, text[end - 1].end});
    }
    return result;
  };
}

Normalizer in_turn(std::vector<Normalizer> steps) {
  return [steps = std::move(steps)](CharacterSpan text) {
    Characters result(text.begin(), text.end());
    for (const Normalizer& step : steps) result = step(result);
    return result;
  };
}

namespace {

struct Part {
  char32_t code;
  int order;          // combining class
  std::size_t takes;  // characters of the source that it comes from: 0 shares the span of the part before
};

std::vector<Part> decomposed(CharacterSpan text, Equivalence equivalence) {
  std::vector<Part> parts;
  parts.reserve(text.size());
  std::size_t run = 0;  // where the combining characters at the end of parts begin
  const auto sort_run = [&] {
    if (parts.size() - run > 1)
      std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(run), parts.end(),
                       [](const Part& a, const Part& b) { return a.order < b.order; });
    run = parts.size();
  };
  const auto add = [&](char32_t code, int order, std::size_t takes) {
    if (order == 0) sort_run();
    parts.push_back({code, order, takes});
    if (order == 0) run = parts.size();
  };
  for (const Character& c : text) {
    if (c.code < 0x80) {  // needs no table
      add(c.code, 0, 1);
      continue;
    }
    const Decomposition codes = decompose(c.code, equivalence);
    for (int i = 0; i < codes.size; ++i) add(codes.codes[i], combining_class(codes.codes[i]), i == 0 ? 1 : 0);
  }
  sort_run();
  return parts;
}

// The canonical composition algorithm: a part joins the last starter unless one of its class or above comes between.
void compose_all(std::vector<Part>& parts) {
  std::size_t kept = 0;            // parts[0, kept) are done
  std::size_t starter = SIZE_MAX;  // in them
  int last_order = -1;             // of the part behind the starter; -1: the starter itself is the last one
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    if (starter != SIZE_MAX && (last_order < part.order || last_order == -1)) {
      if (const char32_t joined = compose(parts[starter].code, part.code); joined != 0) {
        parts[starter].code = joined;
        parts[starter].takes += part.takes;
        continue;
      }
    }
    if (part.order == 0) {
      starter = kept;
      last_order = -1;
    } else {
      last_order = part.order;
    }
    parts[kept++] = part;
  }
  parts.resize(kept);
}

}  // namespace

Characters to_form(CharacterSpan text, UnicodeForm form) {
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  std::vector<Part> parts = decomposed(text, compatible ? Equivalence::compatible : Equivalence::canonical);
  if (form == UnicodeForm::nfc || form == UnicodeForm::nfkc) compose_all(parts);
  Characters result;
  result.reserve(parts.size());
  Character source{};
  std::size_t next = 0;
  StopTurns turns;
  for (const Part& part : parts) {
    turns.next();
    if (part.takes > 0) source = text[next];
    next += part.takes;
    result.push_back({part.code, source.begin, source.end});
  }
  return result;
}

namespace {

// The blocks that BERT calls Chinese; Kana and Hangul are written in words and not among them.
bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

}  // namespace

Normalizer bert_normalizer(const BertNormalizerOptions& options) {
  return [options](CharacterSpan text) {
    Characters clean;
    clean.reserve(text.size());
    StopTurns turns;
    for (Character c : text) {
      turns.next();
      if (options.clean_text) {
        if (c.code == 0 || c.code == kReplacement) continue;
        const bool tab_or_line = c.code == '\t' || c.code == '\n' || c.code == '\r';
        if (!tab_or_line && is_control_or_format(c.code)) continue;
        if (is_white_space(c.code)) c.code = ' ';
      }
      const bool alone = options.handle_chinese_chars && is_chinese(c.code);
      if (alone) clean.push_back({' ', c.begin, c.end});
      clean.push_back(c);
      if (alone) clean.push_back({' ', c.begin, c.end});
    }
    if (options.strip_accents) {
      clean = to_form(clean, UnicodeForm::nfd);
      std::erase_if(clean, [](const Character& c) { return c.code >= 0x80 && is_nonspacing_mark(c.code); });
    }
    return options.lowercase ? to_lower(clean) : clean;
  };
}

namespace {

// Extended grapheme clusters: what a reader takes for one character (Unicode Standard Annex 29), with the properties of
// Unicode 17.0, as the `tokenizers` library has them, but without rule GB9c for conjuncts of Indic consonants. By
// utf8proc, with what came after its Unicode 15.0.

// A code point that utf8proc knows and that joins its neighbours in the same way.
utf8proc_int32_t known_like(char32_t code) {
  constexpr utf8proc_int32_t kExtends = 0x300, kPrepended = 0x600, kPlain = 'x';
  if (code == 0x113D1) return kPrepended;
  if (code == 0x11A3A) return kPlain;  // no longer prepended
  return contains(kNewExtenders, code) ? kExtends : static_cast<utf8proc_int32_t>(code);
}

// How many characters of a text that is not empty its first cluster has.
std::size_t first_cluster(CharacterSpan text) {
  const auto is_plain = [](char32_t code) { return code >= ' ' && code < 0x7F; };  // needs no table
  utf8proc_int32_t state = 0;
  std::size_t length = 1;
  for (; length < text.size(); ++length) {
    const char32_t before = text[length - 1].code, after = text[length].code;
    if (is_plain(before) && is_plain(after)) break;
    if (utf8proc_grapheme_break_stateful(known_like(before), known_like(after), &state)) break;
  }
  return length;
}

// Appends what a part becomes, if it has a replacement.
bool replace_part(const Charsmap& rules, CharacterSpan part, Characters& result) {
  const Charsmap::Match match = rules.shortest(part);
  if (match.length > 0) append_replacement(result, part, match.replacement);
  return match.length > 0;
}

}  // namespace

Normalizer precompiled(Charsmap rules) {
  return [rules = std::move(rules)](CharacterSpan text) {
    constexpr std::size_t kLongestInBytes = 5;
    Characters result;
    result.reserve(text.size());
    StopTurns turns;
    while (!text.empty()) {
      turns.next();
      const CharacterSpan cluster = text.first(first_cluster(text));
      text = text.subspan(cluster.size());
      if (to_utf8(cluster).size() <= kLongestInBytes && replace_part(rules, cluster, result)) continue;
      for (std::size_t i = 0; i < cluster.size(); ++i) {
        if (!replace_part(rules, cluster.subspan(i, 1), result)) result.push_back(cluster[i]);
      }
    }
    return result;
  };
}

namespace {

constexpr char32_t kVisibleSpace = 0x2581;

struct SentencePieceRules {
  Charsmap replaced;
  Trie kept{};  // pieces that the user defined stay as they are

  // Appends what the beginning of a text becomes. Returns how many characters of it that was.
  std::size_t append_first(CharacterSpan text, Characters& result) const {
    if (const Trie::Match piece = kept.longest(text); piece.length > 0) {
      result.insert(result.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(piece.length));
      return piece.length;
    }
    const Charsmap::Match match = replaced.longest(text);
    if (match.length == 0) {
      result.push_back(text.front());
      return 1;
    }
    append_replacement(result, text.first(match.length), match.replacement);
    return match.length;
  }
};

}  // namespace

Normalizer sentence_piece_normalizer(const io::SentencePieceFile& file) {
  SentencePieceRules rules{Charsmap(file.charsmap)};
  for (const auto& piece : file.pieces) {
    if (piece.type == io::SentencePieceFile::Type::user_defined) rules.kept.insert(to_code_points(piece.text), 0);
  }
  return [rules = std::move(rules), single_spaces = file.single_spaces](CharacterSpan text) {
    Characters result, part;
    result.reserve(text.size() + 1);
    if (!text.empty()) result.push_back({kVisibleSpace, text.front().begin, text.front().begin});
    bool after_space = single_spaces;  // a part that follows loses the spaces that it begins with
    StopTurns turns;
    while (!text.empty()) {
      turns.next();
      part.clear();
      text = text.subspan(rules.append_first(text, part));
      for (const Character& c : part) {
        if (c.code == ' ' && after_space) continue;
        after_space = false;
        result.push_back({c.code == ' ' ? kVisibleSpace : c.code, c.begin, c.end});
      }
      if (!part.empty()) after_space = single_spaces && part.back().code == ' ';
    }
    while (single_spaces && !result.empty() && result.back().code == kVisibleSpace) result.pop_back();
    return result;
  };
}

}  // namespace qkv::text
