// Words cut into WordPiece tokens, by hand.
#include "text/wordpiece.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace qkv::text {
namespace {

std::string pieces_of(const WordPiece& model, std::string_view word) {
  std::vector<Piece> pieces;
  model.tokenize(to_characters(word), pieces);
  std::string text;
  for (const Piece& piece : pieces) {
    text += piece.entry->token + ":" + std::to_string(piece.begin) + "-" + std::to_string(piece.end) + " ";
  }
  return text;
}

WordPiece indexed(std::vector<Vocabulary::Entry> entries, const WordPieceOptions& options) {
  WordPiece model(Vocabulary(std::move(entries)), options);
  model.build_index();
  return model;
}

const std::vector<Vocabulary::Entry> kEntries = {{"[UNK]", 0}, {"un", 1},       {"##aff", 2},      {"##able", 3},
                                                 {"unaf", 4},  {"\xC3\xA9", 7}, {"##\xC3\xA9t", 8}};

TEST(WordPiece, TakesTheLongestPieceAndNeverTurnsBack) {
  const WordPiece model = indexed(kEntries, {"[UNK]", "##", 10});
  EXPECT_EQ(pieces_of(model, "unable"), "un:0-2 ##able:2-6 ");
  EXPECT_EQ(pieces_of(model, "unaffable"), "[UNK]:0-9 ");  // un ##aff ##able would do, but unaf is longer than un
}

TEST(WordPiece, CountsCharactersNotBytes) {
  const WordPiece model = indexed(kEntries, {"[UNK]", "##", 3});
  EXPECT_EQ(pieces_of(model, "\xC3\xA9\xC3\xA9t"), "\xC3\xA9:0-1 ##\xC3\xA9t:1-3 ");
  EXPECT_EQ(pieces_of(model, "unaf"), "[UNK]:0-4 ");  // four characters, three allowed
}

TEST(WordPiece, EmptyPrefixContinuesWithAnyToken) {
  const WordPiece model = indexed({{"?", 0}, {"a", 1}, {"ab", 2}}, {"?", "", 10});
  EXPECT_EQ(pieces_of(model, "aab"), "a:0-1 ab:1-3 ");
}

TEST(WordPiece, NeedsItsUnknownToken) {
  EXPECT_THROW(WordPiece(Vocabulary(kEntries), {"<unk>", "##", 10}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::text
