// Every code point against what the reference does with it (golden/tokenizer, code_points.txt and
// schemes/code_points.txt).
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <sstream>

#include "text/bert_normalizer.h"
#include "text/bert_pre_tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv::text {
namespace {

constexpr char32_t kEnd = 0x110000;

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

// Every code point of planes 0 to 3. Of the others, which hold tags and what is private, those near their ends, and
// some between.
std::vector<char32_t> code_points() {
  std::vector<char32_t> codes;
  for (char32_t code = 0; code < kEnd; ++code) {
    const char32_t low = code & 0xFFFF;
    const bool taken = code < 0x40000 || low < 0x2000 || low >= 0xFF00 || low % 61 == 0;
    if (taken && !is_surrogate(code)) codes.push_back(code);
  }
  return codes;
}

char32_t from_hex(const std::string& digits) { return static_cast<char32_t>(std::stoul(digits, nullptr, 16)); }

// The fields after the name of one line.
std::vector<std::string> fields(const std::string& name) {
  static const std::vector<std::string> lines = lines_of(golden("code_points.txt") + golden("schemes/code_points.txt"));
  for (const std::string& line : lines) {
    if (!line.starts_with(name + " ")) continue;
    std::istringstream rest(line.substr(name.size()));
    return {std::istream_iterator<std::string>(rest), {}};
  }
  throw std::runtime_error("no line " + name);
}

using OneOption = bool BertNormalizerOptions::*;

BertNormalizer normalizer_with(OneOption option) {
  BertNormalizerOptions options{
      .clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};
  options.*option = true;
  return BertNormalizer(options);
}

std::u32string normalized(const BertNormalizer& normalizer, const std::u32string& codes) {
  Characters characters;
  for (const char32_t code : codes) characters.push_back({code, 0, 0});
  std::u32string result;
  for (const Character& c : normalizer.normalize(std::move(characters))) result.push_back(c.code);
  return result;
}

TEST(Unicode, ClassesAreThoseOfTheReference) {
  const BertNormalizer clean = normalizer_with(&BertNormalizerOptions::clean_text),
                       chinese = normalizer_with(&BertNormalizerOptions::handle_chinese_chars),
                       strip = normalizer_with(&BertNormalizerOptions::strip_accents);
  const auto between = [](const BertNormalizer& normalizer, char32_t c) {
    return normalized(normalizer, {U'a', c, U'b'});
  };
  const auto words_around = [](char32_t code) {
    Characters characters{{'a', 0, 1}, {code, 1, 2}, {'b', 2, 3}};
    return BertPreTokenizer().split(characters).size();
  };
  const std::pair<const char*, std::function<bool(char32_t)>> classes[] = {
      {"removed", [&](char32_t c) { return between(clean, c) == U"ab"; }},
      {"space", [&](char32_t c) { return between(clean, c) == U"a b"; }},
      {"chinese", [&](char32_t c) { return between(chinese, c) == std::u32string{U'a', U' ', c, U' ', U'b'}; }},
      {"mark", [&](char32_t c) { return between(strip, c) == U"ab"; }},
      {"alone", [&](char32_t c) { return words_around(c) == 3; }},
      {"dropped", [&](char32_t c) { return words_around(c) == 2; }},
      {"letter", is_letter},
      {"number", is_number},
      {"word", is_word_character},
      {"accent", is_mark}};
  const std::vector<char32_t> codes = code_points();
  for (const auto& [name, is_in] : classes) {
    std::vector<bool> expected(kEnd);
    for (const std::string& range : fields(name)) {
      const std::size_t dash = range.find('-');
      const char32_t last = from_hex(dash == std::string::npos ? range : range.substr(dash + 1));
      for (char32_t code = from_hex(range); code <= last; ++code) expected[code] = true;
    }
    for (const char32_t code : codes) {
      ASSERT_EQ(is_in(code), expected[code]) << name << " U+" << std::hex << std::uint32_t{code};
    }
  }
}

TEST(Unicode, LowerCaseAndDecompositionAreThoseOfTheReference) {
  for (const auto& [name, option] : {std::pair("lower", OneOption{&BertNormalizerOptions::lowercase}),
                                     {"stripped", &BertNormalizerOptions::strip_accents}}) {
    const BertNormalizer normalizer = normalizer_with(option);
    std::map<char32_t, std::u32string> expected;
    for (const std::string& field : fields(name)) {
      std::istringstream parts(field.substr(field.find(':') + 1));
      std::u32string& codes = expected[from_hex(field)];
      for (std::string part; std::getline(parts, part, '.');) codes.push_back(from_hex(part));
    }
    for (const char32_t code : code_points()) {
      if (code >= 0xAC00 && code <= 0xD7A3) continue;  // below
      const std::u32string own(1, code), result = normalized(normalizer, own);
      if (result.empty()) continue;  // a lone mark
      const auto at = expected.find(code);
      ASSERT_EQ(result, at == expected.end() ? own : at->second) << name << " U+" << std::hex << std::uint32_t{code};
    }
  }
}

// The Unicode Standard, section 3.12: arithmetic decomposition of Hangul syllables.
TEST(Unicode, HangulDecomposesIntoJamo) {
  for (char32_t code = 0xAC00; code <= 0xD7A3; ++code) {
    const char32_t index = code - 0xAC00;
    const Decomposition parts = decompose(code);
    ASSERT_EQ(parts.size, index % 28 == 0 ? 2 : 3);
    ASSERT_EQ(parts.codes[0], 0x1100 + index / 588);
    ASSERT_EQ(parts.codes[1], 0x1161 + index % 588 / 28);
    if (parts.size == 3) {
      ASSERT_EQ(parts.codes[2], 0x11A7 + index % 28);
    }
  }
}

// The examples of the Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Unicode, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  const auto bad = [](std::size_t count) { return std::u32string(count, U'\uFFFD'); };
  const std::pair<std::string, std::u32string> cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", bad(8) + U"A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", bad(8) + U"A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", bad(5) + U"A" + bad(2) + U"B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", bad(4) + U"A"},
      {"\xE2\x82", bad(1)},
      {"\U0001F600\u20AC\u00E9z", U"\U0001F600\u20AC\u00E9z"}};
  for (const auto& [bytes, codes] : cases) EXPECT_EQ(to_code_points(bytes), codes);
}

TEST(Unicode, Utf8RoundTrip) {
  for (char32_t code = 0; code < kEnd; ++code) {
    if (is_surrogate(code)) continue;
    std::string bytes;
    append_utf8(bytes, code);
    const Decoded back = decode_utf8(bytes);
    ASSERT_EQ(back.code, code);
    ASSERT_EQ(back.size, bytes.size());
  }
}

}  // namespace
}  // namespace qkv::text
