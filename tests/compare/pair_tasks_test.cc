// Pairs for translators: reversals and phrases.
#include "compare/pair_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"

namespace qkv::comparison {
namespace {

TEST(PairTasks, AReversalEndsInTheEndOnBothSides) {
  for (const std::int64_t extent : {1, 4, 9}) {
    TokenPair pair = draw_reversal(extent, 3, 5);
    ASSERT_EQ(std::ssize(pair.source), extent + 1);
    EXPECT_EQ(pair.source.back(), reversal_tokens(20).end);
    EXPECT_EQ(pair.target.back(), reversal_tokens(20).end);
    std::reverse(pair.source.begin(), pair.source.end() - 1);
    EXPECT_EQ(pair.source, pair.target);
  }
}

TEST(PairTasks, ReversalsAreThoseOfTheirNumbersAlone) {
  const ReversalExamples examples(7, 100), others(8, 100);
  const std::vector<std::uint32_t> both{12, 40}, second{40};
  const PairBatch two = examples.collect(both), one = examples.collect(second);
  EXPECT_TRUE(std::equal(one.source.rbegin(), one.source.rend(), two.source.rbegin()));
  EXPECT_EQ(std::ssize(one.target), examples.size(40).length);
  EXPECT_NE(two.source, others.collect(both).source);
  EXPECT_NE(examples.checksum(), others.checksum());
}

TEST(PairTasks, PhrasesAreNumberedByTheirWords) {
  const test::TemporaryFolder folder;
  const PhraseBook book = read_phrase_book(folder.put("pairs.tsv", "good day\tbuenos dias\nday\tdia\ngood good\tya\n"));
  // Two words on one side, four on the other.
  EXPECT_EQ(book.tokens.vocab, 6);
  EXPECT_EQ(book.tokens.end, 4);
  EXPECT_EQ(book.pairs[0].source, (std::vector<std::int32_t>{0, 1, 4}));
  EXPECT_EQ(book.pairs[1].source, (std::vector<std::int32_t>{1, 4}));
  EXPECT_EQ(book.pairs[2].source, (std::vector<std::int32_t>{0, 0, 4}));
  EXPECT_EQ(book.pairs[2].target, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(book.by_words.at(2), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(book.by_words.at(1), (std::vector<std::size_t>{1}));
  EXPECT_EQ(book.tokens.positions, 4);
}

}  // namespace
}  // namespace qkv::comparison
