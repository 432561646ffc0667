#include "text/wordpiece_decoder.h"

#include <gtest/gtest.h>

namespace qkv::text {
namespace {

TEST(WordPieceDecoder, JoinsPiecesAndCleansUp) {
  const std::vector<std::string_view> tokens = {"it", "was", "too", "tir", "##ed", ",", "don", "'", "t", "##!", "?"};
  EXPECT_EQ(WordPieceDecoder("##", true).decode(tokens), "it was too tired, don ' t!?");
  EXPECT_EQ(WordPieceDecoder("##", false).decode(tokens), "it was too tired , don ' t! ?");
  EXPECT_EQ(WordPieceDecoder("##", true).decode({"##a", "##b"}), "##ab");  // the first is never joined
  EXPECT_EQ(WordPieceDecoder("##", true).decode({}), "");
}

}  // namespace
}  // namespace qkv::text
