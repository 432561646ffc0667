// The normalizer Precompiled against the `tokenizers` library (golden/tokenizer/make_precompiled.py), and charsmaps
// that break a rule.
#include "text/precompiled.h"

#include <gtest/gtest.h>

#include "io/base64.h"
#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv::text {
namespace {

const nlohmann::json& expected() {
  static const nlohmann::json content = nlohmann::json::parse(golden("precompiled.json"));
  return content;
}

std::string charsmap() { return *io::decode_base64(expected().at("charsmap").get<std::string>()); }

TEST(Precompiled, GivesTheTextsOfTheReference) {
  const Precompiled normalizer{Charsmap(charsmap())};
  const std::vector<std::string> texts = expected().at("texts"), normalized = expected().at("normalized");
  ASSERT_GT(texts.size(), 1000u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(to_utf8(normalizer.normalize(to_characters(texts[i]))), normalized[i]) << "text " << i;
  }
}

// A with umlaut (2 bytes) becomes Ae; what follows keeps its place.
TEST(Precompiled, CharactersKeepTheirPlaces) {
  const Precompiled normalizer{Charsmap(charsmap())};
  const Characters result = normalizer.normalize(to_characters("c\u00c4d"));
  ASSERT_EQ(to_utf8(result), "cAed");
  EXPECT_EQ(result[1].begin, 1u);
  EXPECT_EQ(result[2].begin, 1u);
  EXPECT_EQ(result[2].end, 3u);
  EXPECT_EQ(result[3].begin, 3u);
}

TEST(Charsmap, FindsTheShortestAndTheLongest) {
  const Charsmap rules(charsmap());  // a -> X, ab -> Y
  const Characters text = to_characters("abc");
  EXPECT_EQ(rules.shortest(text).length, 1u);
  EXPECT_EQ(rules.shortest(text).replacement, "X");
  EXPECT_EQ(rules.longest(text).length, 2u);
  EXPECT_EQ(rules.longest(text).replacement, "Y");
  EXPECT_EQ(rules.longest(to_characters("ca")).length, 0u);
  EXPECT_EQ(Charsmap("").longest(text).length, 0u);
}

// A trie of `units` zeros, which lead nowhere, and two replacements: "" and "x".
std::string blob_of(std::uint32_t units, const std::string& replacements = std::string("\0x\0", 3)) {
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
      {blob_of(256, std::string("x\xFF\0", 3)), "replacements that are not UTF-8 at byte 1"},
      {far, "a unit 5 with children at 261, there are 256 units"},
      {value, "a unit 5 with its replacement at byte 256 of 3, where no character begins"}};
  for (const auto& [blob, fault] : cases) {
    EXPECT_EQ(test::message_of<std::invalid_argument>([&, &bytes = blob] { Charsmap{bytes}; }),
              "the charsmap has " + fault);
  }
}

TEST(Base64, IsWholeOrNothing) {
  const std::pair<const char*, std::string> cases[] = {
      {"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"+/8A", std::string("\xFB\xFF\0", 3)}};
  for (const auto& [text, bytes] : cases) EXPECT_EQ(io::decode_base64(text), bytes) << text;
  for (const char* broken : {"Z", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zm9-", "Zg==Zg=="}) {
    EXPECT_EQ(io::decode_base64(broken), std::nullopt) << broken;
  }
}

TEST(TokenizerJson, ReadsPrecompiledAndRunsOfSpaces) {
  nlohmann::json file = nlohmann::json::parse(R"({
      "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Precompiled"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["X", -1], [" ", -1], ["Y", -1]]}})");
  file["normalizer"]["normalizers"][0]["precompiled_charsmap"] = expected().at("charsmap");
  // "a" becomes X, a tab a space; of three spaces one stays, as does a single one.
  const Encoding encoding = Tokenizer::parse(file.dump(), "f").encode("a  \ta X");
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{1, 2, 1, 2, 1}));
  EXPECT_EQ(encoding.offsets[1], (TextSpan{3, 4}));  // the span of the last of them
}

}  // namespace
}  // namespace qkv::text
