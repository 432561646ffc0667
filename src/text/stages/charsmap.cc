// Checks and searches a double-array trie.
#include "text/stages/charsmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace qkv::text {
namespace {

// A unit: the label of the edge that leads to it, or with the highest bit a value; where its children begin; whether
// one of them is a value.
constexpr std::uint32_t kIsValue = 1u << 31;
std::uint32_t label(std::uint32_t unit) { return unit & (kIsValue | 0xFF); }
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
std::uint32_t value(std::uint32_t unit) { return unit & ~kIsValue; }

constexpr std::size_t kBlock = 256;  // units: the children of one lie in one block, wherever it begins

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

[[noreturn]] void refuse(const std::string& rule) { throw std::invalid_argument("the charsmap " + rule); }

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  if (blob.size() < 4) refuse(fmt::format("has {} bytes, at least 4 are needed", blob.size()));
  const std::size_t trie = read_u32(blob);
  blob.remove_prefix(4);
  if (trie == 0 || trie % (4 * kBlock) != 0) {
    refuse(fmt::format("has a trie of {} bytes, must be a multiple of {}", trie, 4 * kBlock));
  }
  if (trie >= blob.size())
    refuse(fmt::format("has a trie of {} bytes, but {} in all after its size", trie, blob.size()));
  units_.reserve(trie / 4);
  for (std::size_t i = 0; i < trie; i += 4) units_.push_back(read_u32(blob.substr(i)));
  replacements_ = blob.substr(trie);
  if (replacements_.back() != '\0') refuse("has a last replacement without a zero byte at its end");
  for (std::size_t at = 0; at < replacements_.size();) {
    const Decoded next = decode_utf8(std::string_view(replacements_).substr(at));
    if (next.code == kReplacement && replacements_.compare(at, next.size, "\xEF\xBF\xBD") != 0) {
      refuse(fmt::format("has replacements that are not UTF-8 at byte {}", at));
    }
    at += next.size;
  }
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if ((units_[i] & kIsValue) != 0) continue;
    const std::size_t children = i ^ offset(units_[i]);
    if (children >= units_.size()) {
      refuse(fmt::format("has a unit {} with children at {}, there are {} units", i, children, units_.size()));
    }
    if (!has_value(units_[i])) continue;
    const std::uint32_t at = value(units_[children]);
    if (at >= replacements_.size() || !begins_character(replacements_[at])) {
      refuse(fmt::format("has a unit {} with its replacement at byte {} of {}, where no character begins", i, at,
                         replacements_.size()));
    }
  }
}

template <class Found>
void Charsmap::for_each_match(CharacterSpan text, const Found& found) const {
  if (units_.empty()) return;
  std::uint32_t node = offset(units_[0]);
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bytes.clear();
    append_utf8(bytes, text[i].code);
    for (const char& byte : bytes) {
      node ^= static_cast<unsigned char>(byte);
      if (label(units_[node]) != static_cast<unsigned char>(byte)) return;
      const bool ends = has_value(units_[node]) && &byte == &bytes.back();
      node ^= offset(units_[node]);
      if (ends && !found(Match{i + 1, replacements_.c_str() + value(units_[node])})) return;
    }
  }
}

Charsmap::Match Charsmap::shortest(CharacterSpan text) const {
  Match best;
  for_each_match(text, [&](const Match& match) {
    best = match;
    return false;
  });
  return best;
}

Charsmap::Match Charsmap::longest(CharacterSpan text) const {
  Match best;
  for_each_match(text, [&](const Match& match) {
    best = match;
    return true;
  });
  return best;
}

void append_replacement(Characters& result, CharacterSpan replaced, std::string_view replacement) {
  std::size_t at = 0;
  for (const char32_t code : to_code_points(replacement)) {
    const Character& original = replaced[std::min(at++, replaced.size() - 1)];
    result.push_back({code, original.begin, original.end});
  }
}

}  // namespace qkv::text
