// A vocabulary of our own: what it holds, that it loses nothing, and the file that the reference reads
// (golden/tokenizer/make_schemes.py compares tokens and text).
#include "qkv/text/train_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

std::string trained(const std::vector<std::string>& texts, std::int64_t vocab) {
  TokenizerTrainer trainer;
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train(vocab);
}

TEST(TrainTokenizer, WritesTheFileThatTheReferenceHasRead) {
  EXPECT_EQ(trained(golden_texts("texts.json"), 600), golden("schemes/trained.json"));
}

TEST(TrainTokenizer, OrderOfTextsMakesNoDifference) {
  std::vector<std::string> texts = golden_texts("texts.learnt");
  texts.resize(200);
  const std::string learnt = trained(texts, 400);
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(trained(texts, 400), learnt);
}

TEST(TrainTokenizer, NothingIsUnknownAndNothingIsLost) {
  const Tokenizer tokenizer = Tokenizer::parse(trained({"de nada, de nada"}, 265), "t");
  EXPECT_EQ(tokenizer.vocab(), 265);
  std::vector<std::string> texts = golden_texts("texts.json");
  for (const char* text :
       {" ", "  a", "a ", " a  b ", "\xC2\xBFQu\xC3\xA9 tal, ni\xC3\xB1o?", "\xF0\x9F\x98\x80", "\t\n"}) {
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const Encoding encoding = tokenizer.encode(text);
    EXPECT_EQ(encoding.ids.back(), 0);
    EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), 1), 0);
    EXPECT_EQ(tokenizer.decode(encoding.ids), text);
  }
}

TEST(TrainTokenizer, SpecialTokens) {
  // What reads like a special token is one, and teaches nothing.
  const Tokenizer tokenizer = Tokenizer::parse(trained({"</s></s></s></s>ab ab"}, 261), "t");
  EXPECT_EQ(tokenizer.id_of("</s>"), 0);
  EXPECT_EQ(tokenizer.id_of("<unk>"), 1);
  EXPECT_EQ(tokenizer.id_of("<pad>"), 260);
  EXPECT_EQ(tokenizer.token_of(258),
            "\xC4\xA0"
            "a");  // as frequent as ab, but the space is the lower byte
  EXPECT_EQ(tokenizer.token_of(259),
            "\xC4\xA0"
            "ab");  // U+0120 is the space
  EXPECT_EQ(tokenizer.encode("ab").ids, (std::vector<std::int32_t>{259, 0}));
  EXPECT_EQ(tokenizer.encode("").ids, std::vector<std::int32_t>{0});
}

TEST(TrainTokenizer, EndsWhereNothingRepeats) {
  EXPECT_EQ(Tokenizer::parse(trained({"abc"}, 300), "t").vocab(), 259);
  EXPECT_EQ(Tokenizer::parse(trained({}, 300), "t").vocab(), 259);
  EXPECT_EQ(Tokenizer::parse(trained({"ab ab"}, 300), "t").vocab(), 261);
  EXPECT_EQ(Tokenizer::parse(trained({"ab ab"}, 260), "t").vocab(), 260);
}

TEST(TrainTokenizer, RefusesVocabulariesOutOfBounds) {
  TokenizerTrainer trainer;
  EXPECT_THROW(trainer.train(258), std::invalid_argument);
  EXPECT_THROW(trainer.train(200'001), std::invalid_argument);
  EXPECT_THROW(trainer.train(-1), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
