// The normalizer Precompiled against the `tokenizers` library (golden/tokenizer/make_precompiled.py), and charsmaps
// that break a rule.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/text.h"
#include "qkv/error.h"
#include "qkv/text/tokenizer.h"
#include "text/normalizers.h"
#include "text/tokenizer_expected.h"

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
  const Characters result =
      normalizer.normalize(to_characters("c\xC3\x84"
                                         "d"));
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

std::string refusal(const std::string& blob) {
  try {
    Charsmap rules(blob);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// A trie of `units` zeros, which lead nowhere, and two replacements: "" and "x".
std::string blob_of(std::uint32_t units, const std::string& replacements = std::string("\0x\0", 3)) {
  std::string blob;
  for (int i = 0; i < 4; ++i) blob.push_back(static_cast<char>(units * 4 >> 8 * i & 0xFF));
  return blob + std::string(units * 4, '\0') + replacements;
}

TEST(Charsmap, RefusesWhatLeadsOutside) {
  EXPECT_EQ(refusal(blob_of(256)), "accepted");
  EXPECT_EQ(refusal("abc"), "the charsmap has 3 bytes, at least 4 are needed");
  EXPECT_EQ(refusal(blob_of(0)), "the charsmap has a trie of 0 bytes, must be a multiple of 1024");
  EXPECT_EQ(refusal(blob_of(255)), "the charsmap has a trie of 1020 bytes, must be a multiple of 1024");
  EXPECT_EQ(refusal(blob_of(256, "")), "the charsmap has a trie of 1024 bytes, but 1024 in all after its size");
  EXPECT_EQ(refusal(blob_of(256, "x")), "the charsmap has a last replacement without a zero byte at its end");
  EXPECT_EQ(refusal(blob_of(256, std::string("x\xFF\0", 3))),
            "the charsmap has replacements that are not UTF-8 at byte 1");
  std::string far = blob_of(256);
  far[4 + 4 * 5 + 2] = 4;  // unit 5: offset (4 << 16) >> 10 = 256
  EXPECT_EQ(refusal(far), "the charsmap has a unit 5 with children at 261, there are 256 units");
  std::string value = blob_of(256);
  value[4 + 4 * 5 + 1] = 1;  // unit 5 has a value in unit 5, itself: 256
  EXPECT_EQ(refusal(value),
            "the charsmap has a unit 5 with its replacement at byte 256 of 3, where no character begins");
}

TEST(Base64, IsWholeOrNothing) {
  EXPECT_EQ(io::decode_base64(""), "");
  EXPECT_EQ(io::decode_base64("Zg=="), "f");
  EXPECT_EQ(io::decode_base64("Zm8="), "fo");
  EXPECT_EQ(io::decode_base64("Zm9v"), "foo");
  EXPECT_EQ(io::decode_base64("+/8A"), std::string("\xFB\xFF\0", 3));
  for (const char* broken : {"Z", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zm9-", "Zg==Zg=="}) {
    EXPECT_EQ(io::decode_base64(broken), std::nullopt) << broken;
  }
}

// A tokenizer with these normalizers whose tokens are single letters and the space.
std::string tokenizer_with(const std::string& normalizer) {
  return R"({"version": "1.0", "normalizer": )" + normalizer + R"(, "model": {"type": "Unigram", "unk_id": 0,
      "vocab": [["?", 0], ["X", -1], [" ", -1], ["Y", -1]]}})";
}

TEST(TokenizerJson, ReadsPrecompiledAndRunsOfSpaces) {
  const std::string precompiled =
      R"({"type": "Precompiled", "precompiled_charsmap": ")" + expected().at("charsmap").get<std::string>() + "\"}";
  const std::string runs = R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})";
  const std::string both = R"({"type": "Sequence", "normalizers": [)" + precompiled + ", " + runs + "]}";
  // "a" becomes X, a tab a space; of three spaces one stays, as does a single one.
  const Encoding encoding = Tokenizer::parse(tokenizer_with(both), "f").encode("a  \ta X");
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{1, 2, 1, 2, 1}));
  EXPECT_EQ(encoding.offsets[1], (TextSpan{3, 4}));  // the span of the last of them

  const auto refused = [](const std::string& normalizer) {
    try {
      Tokenizer::parse(tokenizer_with(normalizer), "f");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(R"({"type": "Precompiled", "precompiled_charsmap": "Zh=="})"),
            "f: normalizer.precompiled_charsmap must be base64");
  EXPECT_EQ(refused(R"({"type": "Precompiled", "precompiled_charsmap": "Zm9v"})"),
            "f: normalizer.precompiled_charsmap breaks a rule: the charsmap has 3 bytes, at least 4 are needed");
  EXPECT_EQ(refused(R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": " "})"),
            "f: normalizer.pattern.Regex is not supported; of regular expressions only \" {2,}\" is");
}

}  // namespace
}  // namespace qkv::text
