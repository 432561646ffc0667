// Normalizes text as BERT does.
#include "text/bert_normalizer.h"

#include "core/stop.h"
#include "text/normalizers.h"
#include "text/unicode_form.h"

namespace qkv::text {
namespace {

// The blocks that BERT calls Chinese; Kana and Hangul are written in words and not among them.
bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

}  // namespace

Characters BertNormalizer::normalize(CharacterSpan text) const {
  Characters clean;
  clean.reserve(text.size());
  StopTurns turns;
  for (Character c : text) {
    turns.next();
    if (options_.clean_text) {
      if (c.code == 0 || c.code == kReplacement) continue;
      const bool tab_or_line = c.code == '\t' || c.code == '\n' || c.code == '\r';
      if (!tab_or_line && is_control_or_format(c.code)) continue;
      if (is_white_space(c.code)) c.code = ' ';
    }
    const bool alone = options_.handle_chinese_chars && is_chinese(c.code);
    if (alone) clean.push_back({' ', c.begin, c.end});
    clean.push_back(c);
    if (alone) clean.push_back({' ', c.begin, c.end});
  }
  if (options_.strip_accents) {
    clean = to_form(clean, UnicodeForm::nfd);
    std::erase_if(clean, [](const Character& c) { return c.code >= 0x80 && is_nonspacing_mark(c.code); });
  }
  return options_.lowercase ? to_lower(clean) : clean;
}

}  // namespace qkv::text
