// Every code point against what the reference does with it (golden/tokenizer, code_points.txt and
// schemes/code_points.txt); the normalizer Precompiled against it, and charsmaps that break a rule.
#include "text/stages/unicode.h"

#include "io/base64.h"
#include "qkv/text/tokenizer.h"
#include "text/stages/normalizers.h"
#include "text/stages/pre_tokenizers.h"
#include "text/tokenizer_files.h"

namespace qkv::text {
namespace {

using std::string_literals::operator""s;

constexpr char32_t kEnd = 0x110000;

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

// Every code point of planes 0 to 3; of the others, of tags and what is private, those near the ends, and some between.
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

Normalizer normalizer_with(OneOption option) {
  BertNormalizerOptions options{
      .clean_text = false, .handle_chinese_chars = false, .strip_accents = false, .lowercase = false};
  options.*option = true;
  return bert_normalizer(options);
}

std::u32string normalized(const Normalizer& normalizer, const std::u32string& codes) {
  Characters characters;
  for (const char32_t code : codes) characters.push_back({code, 0, 0});
  std::u32string result;
  for (const Character& c : normalizer(std::move(characters))) result.push_back(c.code);
  return result;
}

TEST(Unicode, ClassesAreThoseOfTheReference) {
  const Normalizer clean = normalizer_with(&BertNormalizerOptions::clean_text),
                   chinese = normalizer_with(&BertNormalizerOptions::handle_chinese_chars),
                   strip = normalizer_with(&BertNormalizerOptions::strip_accents);
  const auto between = [](const Normalizer& normalizer, char32_t c) { return normalized(normalizer, {U'a', c, U'b'}); };
  const auto words_around = [](char32_t code) {
    Characters characters{{'a', 0, 1}, {code, 1, 2}, {'b', 2, 3}};
    return bert_words(characters).size();
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
    const Normalizer normalizer = normalizer_with(option);
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
    std::u32string expected = {0x1100 + index / 588, 0x1161 + index % 588 / 28};
    if (index % 28 != 0) expected += 0x11A7 + index % 28;
    ASSERT_EQ(std::u32string(parts.codes, static_cast<std::size_t>(parts.size)), expected);
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
  for (char32_t code = 0; code < kEnd; ++code) {
    if (is_surrogate(code)) continue;
    std::string bytes;
    append_utf8(bytes, code);
    const Decoded back = decode_utf8(bytes);
    ASSERT_TRUE(back.code == code && back.size == bytes.size()) << std::hex << std::uint32_t{code};
  }
}

nlohmann::json precompiled_golden() { return nlohmann::json::parse(golden("precompiled.json")); }

std::string charsmap() { return *io::decode_base64(precompiled_golden().at("charsmap").get<std::string>()); }

TEST(Precompiled, GivesTheTextsAndPlacesOfTheReference) {
  const Normalizer normalizer = precompiled(Charsmap(charsmap()));
  const nlohmann::json golden = precompiled_golden();
  const std::vector<std::string> texts = golden.at("texts"), normalized = golden.at("normalized");
  ASSERT_GT(texts.size(), 1000u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(to_utf8(normalizer(to_characters(texts[i]))), normalized[i]) << "text " << i;
  }
  // A with umlaut (2 bytes) becomes Ae; what follows keeps its place.
  const Characters result = normalizer(to_characters("c\u00c4d"));
  ASSERT_EQ(to_utf8(result), "cAed");
  EXPECT_EQ(result[1].begin, 1u);
  EXPECT_EQ(result[2].begin, 1u);
  EXPECT_EQ(result[2].end, 3u);
  EXPECT_EQ(result[3].begin, 3u);
}

TEST(Charsmap, FindsTheShortestAndTheLongest) {
  const Charsmap rules(charsmap());  // a -> X, ab -> Y
  const Characters text = to_characters("abc");
  const auto shortest = rules.shortest(text), longest = rules.longest(text);
  EXPECT_TRUE(shortest.length == 1 && shortest.replacement == "X");
  EXPECT_TRUE(longest.length == 2 && longest.replacement == "Y");
  EXPECT_EQ(rules.longest(to_characters("ca")).length, 0u);
  EXPECT_EQ(Charsmap("").longest(text).length, 0u);
}

// A trie of `units` zeros, which lead nowhere, and two replacements: "" and "x".
std::string blob_of(std::uint32_t units, const std::string& replacements = "\0x\0"s) {
  std::string blob;
  for (int i = 0; i < 4; ++i) blob.push_back(static_cast<char>(units * 4 >> 8 * i & 0xFF));
  return blob + std::string(units * 4, '\0') + replacements;
}

TEST(Charsmap, RefusesWhatLeadsOutside) {
  const std::string good = blob_of(256);
  std::string far = good, value = good;
  far[4 + 4 * 5 + 2] = 4;    // unit 5: offset (4 << 16) >> 10 = 256
  value[4 + 4 * 5 + 1] = 1;  // unit 5 has a value in unit 5, itself: 256
  Charsmap{good};
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "3 bytes, at least 4 are needed"},
      {blob_of(0), "a trie of 0 bytes, must be a multiple of 1024"},
      {blob_of(255), "a trie of 1020 bytes, must be a multiple of 1024"},
      {blob_of(256, ""), "a trie of 1024 bytes, but 1024 in all after its size"},
      {blob_of(256, "x"), "a last replacement without a zero byte at its end"},
      {blob_of(256, "x\xFF\0"s), "replacements that are not UTF-8 at byte 1"},
      {far, "a unit 5 with children at 261, there are 256 units"},
      {value, "a unit 5 with its replacement at byte 256 of 3, where no character begins"}};
  for (const auto& [blob, fault] : cases) {
    EXPECT_EQ(test::message_of<std::invalid_argument>([&, &bytes = blob] { Charsmap{bytes}; }),
              "the charsmap has " + fault);
  }
}

TEST(TokenizerJson, ReadsPrecompiledAndRunsOfSpaces) {
  nlohmann::json file = nlohmann::json::parse(R"({
      "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Precompiled"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["X", -1], [" ", -1], ["Y", -1]]}})");
  file["normalizer"]["normalizers"][0]["precompiled_charsmap"] = precompiled_golden().at("charsmap");
  // "a" becomes X, a tab a space; of three spaces one stays, as does a single one.
  const Encoding encoding = Tokenizer::parse(file.dump(), "f").encode("a  \ta X");
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{1, 2, 1, 2, 1}));
  EXPECT_EQ(encoding.offsets[1], (TextSpan{3, 4}));  // the span of the last of them
}

}  // namespace
}  // namespace qkv::text
