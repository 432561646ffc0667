// WordPiece tokens joined to text, by hand.
#include <gtest/gtest.h>

#include "text/decoders.h"

namespace qkv::text {
namespace {

std::string decoded(const WordPieceDecoder& decoder, std::vector<std::string> tokens) {
  decoder.decode(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

TEST(WordPieceDecoder, JoinsPiecesAndCleansUp) {
  const std::vector<std::string> tokens = {"it", "was", "too", "tir", "##ed", ",", "don", "'", "t", "##!", "?"};
  EXPECT_EQ(decoded(WordPieceDecoder("##", true), tokens), "it was too tired, don ' t!?");
  EXPECT_EQ(decoded(WordPieceDecoder("##", false), tokens), "it was too tired , don ' t! ?");
  EXPECT_EQ(decoded(WordPieceDecoder("##", true), {"##a", "##b"}), "##ab");  // the first is never joined
  EXPECT_EQ(decoded(WordPieceDecoder("##", true), {}), "");
}

}  // namespace
}  // namespace qkv::text
