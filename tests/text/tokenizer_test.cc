// Whole tokenizers: the same tokens, at the same offsets, and the same text back as the reference
// (golden/tokenizer/make.py and make_schemes.py).
#include "qkv/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "qkv/error.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

// As make.py and make_schemes.py write them: "id:begin:end" for each token, positions counted in characters.
std::string described(const Encoding& encoding, std::string_view text) {
  std::vector<std::size_t> character_at(text.size() + 1);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    character_at[i] = seen;
    if (i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80) ++seen;
  }
  character_at[text.size()] = seen;
  std::string result;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const TextSpan span = encoding.offsets[i];
    result += (i == 0 ? "" : " ") + std::to_string(encoding.ids[i]) + ":" + std::to_string(character_at[span.begin]) +
              ":" + std::to_string(character_at[span.end]);
  }
  return result;
}

void expect_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                   const std::vector<std::string>& expected) {
  ASSERT_FALSE(texts.empty());
  ASSERT_EQ(texts.size(), expected.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string tokens = described(tokenizer.encode(texts[i]), texts[i]);
    if (tokens == expected[i]) continue;
    ADD_FAILURE() << "text " << i << " " << nlohmann::json(texts[i]).dump(-1, ' ', true) << "\n  is " << tokens
                  << "\n  not " << expected[i];
    if (++wrong == 10) FAIL() << "further differences are not shown";
  }
}

// Of each tokenizer the file, its tokens and its texts, under one name.
class TokenizerSchemes : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    decoded_ = golden_texts(name_ + "_decoded.json");
    texts_.resize(decoded_.size());
  }

  const std::string name_ = GetParam();
  const Tokenizer tokenizer_ = Tokenizer::parse(golden(name_ + ".json"), name_);
  std::vector<std::string> texts_ = golden_texts("texts.json"), decoded_;
};

TEST_P(TokenizerSchemes, GivesTheTokensOfTheReference) {
  expect_tokens(tokenizer_, texts_, lines_of(golden(name_ + "_tokens.txt")));
}

TEST_P(TokenizerSchemes, DecodesAsTheReferenceWholeAndInPieces) {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::vector<std::int32_t> ids = tokenizer_.encode(texts_[i]).ids;
    EXPECT_EQ(tokenizer_.decode(ids), decoded_[i]) << "text " << i;
    DecodeStream stream(tokenizer_);
    std::string pieces;
    for (const std::int32_t id : ids) pieces += stream.put(id);
    EXPECT_EQ(pieces + stream.finish(), decoded_[i]) << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerSchemes,
                         ::testing::Values("small", "schemes/byte_level", "schemes/byte_words", "schemes/metaspace",
                                           "schemes/suffix", "schemes/prefix", "schemes/unigram",
                                           "schemes/unigram_bytes", "schemes/trained"),
                         [](const auto& scheme) { return std::filesystem::path(scheme.param).filename().string(); });

Tokenizer small() { return Tokenizer::parse(golden("small.json"), "small.json"); }

TEST(Tokenizer, MiniLmGivesTheTokensOfTheReference) {
  const std::string path = minilm_folder() + "/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << ": run models/get-minilm";
  expect_tokens(Tokenizer::load(path), golden_texts("texts.json"), lines_of(golden("minilm_tokens.txt")));
}

TEST(TokenizerSlow, CorpusGivesTheTokensOfTheReference) {
  const char* corpus = std::getenv("QKV_TOKENIZER_CORPUS");
  const char* expected = std::getenv("QKV_TOKENIZER_EXPECTED");
  if (corpus == nullptr || expected == nullptr) {
    GTEST_SKIP() << "run tests/tokenizer_corpus, which names a corpus and its tokens";
  }
  const char* file = std::getenv("QKV_TOKENIZER_FILE");
  expect_tokens(Tokenizer::load(file != nullptr ? file : minilm_folder() + "/tokenizer.json"), lines_of(slurp(corpus)),
                lines_of(slurp(expected)));
}

TEST(Tokenizer, TokensAndMask) {
  const Encoding encoding = small().encode("Caf\xC3\xA9 [MASK]");
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"[CLS]", "c", "##a", "##f", "##e", " [MASK]", "[SEP]"}));
  EXPECT_EQ(encoding.special, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(encoding.type_ids, std::vector<std::int32_t>(7, 0));
  EXPECT_EQ(encoding.offsets[4], (TextSpan{3, 5}));  // two bytes
  EXPECT_EQ(encoding.offsets[5], (TextSpan{5, 12}));
}

TEST(Tokenizer, CutsTheEndOff) {
  const Tokenizer tokenizer = small();
  const std::vector<std::int32_t> whole = tokenizer.encode("the animal was too tired").ids;
  ASSERT_EQ(whole.size(), 7u);
  for (std::size_t length = 2; length < 9; ++length) {
    std::vector<std::int32_t> expected = whole;
    if (length < whole.size()) expected.erase(expected.end() - 1 - (whole.size() - length), expected.end() - 1);
    EXPECT_EQ(tokenizer.encode("the animal was too tired", {.max_length = length}).ids, expected);
  }
  EXPECT_EQ(tokenizer.encode("the animal", {.max_length = 1, .add_special_tokens = false}).ids.size(), 1u);
  EXPECT_THROW(tokenizer.encode("the", {.max_length = 1}), std::invalid_argument);
}

TEST(Tokenizer, BadBytesDoNotStopALine) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.encode("the \xFF\xC3 animal\xE2\x82").ids, tokenizer.encode("the animal").ids);
  EXPECT_EQ(tokenizer.encode("the\xED\xA0\x80").offsets[1], (TextSpan{0, 3}));
}

TEST(Tokenizer, LooksUp) {
  const Tokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.id_of("[PAD]"), 0);
  EXPECT_EQ(tokenizer.token_of(0), "[PAD]");
  EXPECT_FALSE(tokenizer.id_of("not there"));
  EXPECT_EQ(tokenizer.token_of(static_cast<std::int32_t>(tokenizer.vocab()) - 1), "Mixed Case");  // added last
  EXPECT_EQ(tokenizer.id_of("Mixed Case"), tokenizer.vocab() - 1);
  EXPECT_THROW(Tokenizer::load("/nonexistent/tokenizer.json"), IoError);
  EXPECT_THROW(tokenizer.token_of(-1), std::invalid_argument);
  EXPECT_THROW(tokenizer.decode(std::vector<std::int32_t>{1 << 30}), std::invalid_argument);
}

TEST(Tokenizer, DecodeKeepsSpecialTokensOnRequest) {
  const Tokenizer tokenizer = small();
  const std::vector<std::int32_t> ids = tokenizer.encode("the animal").ids;
  EXPECT_EQ(tokenizer.decode(ids), "the animal");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = false}), "[CLS] the animal [SEP]");
}

// Ten million characters in one line: anything quadratic would not come back.
TEST(TokenizerSlow, LongLinesTakeLinearTime) {
  const Tokenizer tokenizer = small();
  constexpr std::size_t kLength = 10'000'000;
  EXPECT_EQ(tokenizer.encode(std::string(kLength, 'a')).ids.size(), 3u);
  EXPECT_EQ(tokenizer.encode(std::string(kLength, '.')).ids.size(), kLength + 2);
  EXPECT_EQ(tokenizer.encode(std::string(kLength, ' ')).ids.size(), 2u);
  std::string accents;
  for (std::size_t i = 0; i < kLength / 4; ++i) accents += i % 2 == 0 ? "\xCC\x81" : "\xCC\x96";
  EXPECT_EQ(tokenizer.encode(accents).ids.size(), 2u);
}

}  // namespace
}  // namespace qkv
