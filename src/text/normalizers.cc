// The small normalizers.
#include "text/normalizers.h"

#include <algorithm>

#include "core/stop.h"

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

Characters StripAccents::normalize(CharacterSpan text) const {
  Characters result(text.begin(), text.end());
  std::erase_if(result, [](const Character& c) { return is_mark(c.code); });
  return result;
}

Characters StripSpace::normalize(CharacterSpan text) const {
  std::size_t begin = 0, end = text.size();
  while (left_ && begin < end && is_white_space(text[begin].code)) ++begin;
  while (right_ && begin < end && is_white_space(text[end - 1].code)) --end;
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

Characters prepended(std::u32string_view beginning, CharacterSpan text) {
  Characters result;
  if (text.empty()) return result;
  result.reserve(beginning.size() + text.size());
  for (const char32_t code : beginning) result.push_back({code, text.front().begin, text.front().end});
  result.insert(result.end(), text.begin(), text.end());
  return result;
}

Characters Replace::normalize(CharacterSpan text) const {
  Characters result;
  result.reserve(text.size());
  StopTurns turns;
  for (std::size_t at = 0; at < text.size();) {
    turns.next();
    const bool found = text.size() - at >= from_.size() &&
                       std::equal(from_.begin(), from_.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                                  [](char32_t code, const Character& c) { return c.code == code; });
    if (!found) {
      result.push_back(text[at++]);
      continue;
    }
    at += from_.size();
    for (const char32_t code : to_) result.push_back({code, text[at - 1].begin, text[at - 1].end});
  }
  return result;
}

Characters ReplaceSpaces::normalize(CharacterSpan text) const {
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
    for (const char32_t code : to_) result.push_back({code, text[end - 1].begin, text[end - 1].end});
  }
  return result;
}

Characters NormalizerSequence::normalize(CharacterSpan text) const {
  Characters result(text.begin(), text.end());
  for (const auto& step : steps_) result = step->normalize(result);
  return result;
}

}  // namespace qkv::text
