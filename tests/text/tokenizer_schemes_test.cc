// Byte-pair and unigram tokenizers: the same tokens, at the same offsets, and the same text back as the reference
// (golden/tokenizer/make_schemes.py).
#include <gtest/gtest.h>

#include "qkv/text/tokenizer.h"
#include "text/tokenizer_expected.h"

namespace qkv {
namespace {

class TokenizerSchemes : public ::testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& ending) const { return "schemes/" + std::string(GetParam()) + ending; }
  Tokenizer load() const { return Tokenizer::parse(golden(file(".json")), GetParam()); }
  std::vector<std::string> texts() const {
    std::vector<std::string> all = golden_texts("texts.json");
    all.resize(golden_texts(file("_decoded.json")).size());
    return all;
  }
};

TEST_P(TokenizerSchemes, GivesTheTokensOfTheReference) {
  expect_tokens(load(), texts(), lines_of(golden(file("_tokens.txt"))));
}

TEST_P(TokenizerSchemes, DecodesAsTheReference) {
  const Tokenizer tokenizer = load();
  const std::vector<std::string> expected = golden_texts(file("_decoded.json"));
  const std::vector<std::string> all = texts();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(all[i]).ids), expected[i]) << "text " << i;
  }
}

TEST_P(TokenizerSchemes, TextInPiecesIsTheWholeText) {
  const Tokenizer tokenizer = load();
  for (const std::string& text : texts()) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text).ids;
    DecodeStream stream(tokenizer);
    std::string pieces;
    for (const std::int32_t id : ids) pieces += stream.put(id);
    pieces += stream.finish();
    EXPECT_EQ(pieces, tokenizer.decode(ids)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerSchemes,
                         ::testing::Values("byte_level", "byte_words", "metaspace", "suffix", "prefix", "unigram",
                                           "unigram_bytes", "trained"),
                         [](const auto& scheme) { return std::string(scheme.param); });

}  // namespace
}  // namespace qkv
