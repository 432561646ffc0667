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
  std::vector<std::string> texts = golden_texts("texts.json");
  texts.resize(200);
  const std::string learnt = trained(texts, 400);
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(trained(texts, 400), learnt);
}

TEST(TrainTokenizer, NothingIsUnknownAndNothingIsLost) {
  const Tokenizer tokenizer = Tokenizer::parse(trained({"de nada, de nada"}, 265), "t");
  EXPECT_EQ(tokenizer.vocab(), 265);
  std::vector<std::string> texts = golden_texts("texts.json");
  texts.insert(texts.end(), {" ", "  a", "a ", " a  b ", "\u00bfQu\u00e9 tal, ni\u00f1o?", "\U0001f600", "\t\n"});
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
  EXPECT_EQ(tokenizer.token_of(258), "\u0120a");  // U+0120 is the space: as frequent as ab, but the lower byte
  EXPECT_EQ(tokenizer.token_of(259), "\u0120ab");
  EXPECT_EQ(tokenizer.encode("ab").ids, (std::vector<std::int32_t>{259, 0}));
  EXPECT_EQ(tokenizer.encode("").ids, std::vector<std::int32_t>{0});
}

TEST(TrainTokenizer, EndsWhereNothingRepeats) {
  EXPECT_EQ(Tokenizer::parse(trained({"abc"}, 300), "t").vocab(), 259);
  EXPECT_EQ(Tokenizer::parse(trained({}, 300), "t").vocab(), 259);
  EXPECT_EQ(Tokenizer::parse(trained({"ab ab"}, 300), "t").vocab(), 261);
  EXPECT_EQ(Tokenizer::parse(trained({"ab ab"}, 260), "t").vocab(), 260);
  for (const std::int64_t vocab : {258, 200'001, -1}) EXPECT_THROW(trained({}, vocab), std::invalid_argument) << vocab;
}

}  // namespace
}  // namespace qkv
