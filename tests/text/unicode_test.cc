// Every code point against what the reference does with it (golden/tokenizer, code_points.txt and
// schemes/code_points.txt).
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "text/normalizers.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_files.h"

namespace qkv::text {
namespace {

constexpr char32_t kEnd = 0x110000;

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

char32_t from_hex(const std::string& digits) { return static_cast<char32_t>(std::stoul(digits, nullptr, 16)); }

// The fields after the name of one line.
std::vector<std::string> fields(const std::string& name) {
  for (const std::string& line : lines_of(golden("code_points.txt") + golden("schemes/code_points.txt"))) {
    if (!line.starts_with(name + " ")) continue;
    std::istringstream rest(line.substr(name.size()));
    return {std::istream_iterator<std::string>(rest), {}};
  }
  throw std::runtime_error("no line " + name);
}

void expect_set(const std::string& name, const std::function<bool(char32_t)>& test) {
  std::set<char32_t> expected;
  for (const std::string& range : fields(name)) {
    const std::size_t dash = range.find('-');
    const char32_t first = from_hex(range);
    const char32_t last = dash == std::string::npos ? first : from_hex(range.substr(dash + 1));
    for (char32_t code = first; code <= last; ++code) expected.insert(code);
  }
  for (char32_t code = 0; code < kEnd; ++code) {
    if (is_surrogate(code)) continue;
    ASSERT_EQ(test(code), expected.contains(code)) << name << " U+" << std::hex << std::uint32_t{code};
  }
}

void expect_map(const std::string& name, const std::function<std::u32string(char32_t)>& function) {
  std::map<char32_t, std::u32string> expected;
  for (const std::string& field : fields(name)) {
    std::istringstream parts(field.substr(field.find(':') + 1));
    std::u32string& codes = expected[from_hex(field)];
    for (std::string part; std::getline(parts, part, '.');) codes.push_back(from_hex(part));
  }
  for (char32_t code = 0; code < kEnd; ++code) {
    if (is_surrogate(code) || (code >= 0xAC00 && code <= 0xD7A3)) continue;
    const auto at = expected.find(code);
    const std::u32string result = function(code);
    if (result.empty()) continue;  // a lone mark
    ASSERT_EQ(result, at == expected.end() ? std::u32string(1, code) : at->second)
        << name << " U+" << std::hex << std::uint32_t{code};
  }
}

std::u32string normalized(const BertNormalizerOptions& options, const std::u32string& codes) {
  Characters characters;
  for (const char32_t code : codes) characters.push_back({code, 0, 0});
  std::u32string result;
  for (const Character& c : BertNormalizer(options).normalize(characters)) result.push_back(c.code);
  return result;
}

constexpr BertNormalizerOptions kNothing{
    .clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};

BertNormalizerOptions only(bool BertNormalizerOptions::* option) {
  BertNormalizerOptions options = kNothing;
  options.*option = true;
  return options;
}

std::size_t words_around(char32_t code) {
  Characters characters{{'a', 0, 1}, {code, 1, 2}, {'b', 2, 3}};
  return BertPreTokenizer().split(characters).size();
}

TEST(Unicode, CleanTextRemovesWhatTheReferenceRemoves) {
  expect_set("removed",
             [](char32_t c) { return normalized(only(&BertNormalizerOptions::clean_text), {U'a', c, U'b'}) == U"ab"; });
}

TEST(Unicode, WhiteSpaceBecomesSpaceAsInTheReference) {
  expect_set("space", [](char32_t c) {
    return normalized(only(&BertNormalizerOptions::clean_text), {U'a', c, U'b'}) == U"a b";
  });
}

TEST(Unicode, ChineseCharactersAreThoseOfTheReference) {
  expect_set("chinese", [](char32_t c) {
    return normalized(only(&BertNormalizerOptions::handle_chinese_chars), {U'a', c, U'b'}) ==
           std::u32string{U'a', U' ', c, U' ', U'b'};
  });
}

TEST(Unicode, MarksAreThoseOfTheReference) {
  expect_set("mark", [](char32_t c) {
    return normalized(only(&BertNormalizerOptions::strip_accents), {U'a', c, U'b'}) == U"ab";
  });
}

TEST(Unicode, PunctuationStandsAloneAsInTheReference) {
  expect_set("alone", [](char32_t c) { return words_around(c) == 3; });
}

TEST(Unicode, WhiteSpaceSplitsAsInTheReference) {
  expect_set("dropped", [](char32_t c) { return words_around(c) == 2; });
}

TEST(Unicode, LettersNumbersAndAccentsAreThoseOfTheReference) {
  expect_set("letter", is_letter);
  expect_set("number", is_number);
  expect_set("word", is_word_character);
  expect_set("accent", is_mark);
}

TEST(Unicode, LowerCaseIsThatOfTheReference) {
  expect_map("lower",
             [](char32_t c) { return normalized(only(&BertNormalizerOptions::lowercase), std::u32string(1, c)); });
}

TEST(Unicode, DecompositionIsThatOfTheReference) {
  expect_map("stripped",
             [](char32_t c) { return normalized(only(&BertNormalizerOptions::strip_accents), std::u32string(1, c)); });
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

TEST(Unicode, WordCharacters) {
  for (const char32_t c : U"aZ5_\u00e9\u0301\u0416\u4e2d\u0903\u203f\u24b6\u200d\u2160") {
    if (c != 0) {
      EXPECT_TRUE(is_word_character(c)) << std::hex << std::uint32_t{c};
    }
  }
  for (const char32_t c : U" -.\u00a0\u20ac\u2014\u00bd\U0001f600\u200b") {
    if (c != 0) {
      EXPECT_FALSE(is_word_character(c)) << std::hex << std::uint32_t{c};
    }
  }
}

// The examples of the Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Unicode, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  const auto decoded = [](const std::string& bytes) { return to_code_points(bytes); };
  const std::u32string r = U"\uFFFD";
  EXPECT_EQ(decoded("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + U"A");
  EXPECT_EQ(decoded("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + U"A");
  EXPECT_EQ(decoded("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + U"A" + r + r + U"B");
  EXPECT_EQ(decoded("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + U"A");
  EXPECT_EQ(decoded("\xE2\x82"), r);
  EXPECT_EQ(decoded("\xF0\x9F\x98\x80\xE2\x82\xAC\xC3\xA9z"), U"\U0001F600\u20AC\u00E9z");
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
