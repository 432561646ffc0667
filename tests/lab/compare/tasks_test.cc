// Examples of the tasks: what is asked is what was said.
#include "io/files_for_test.h"
#include "lab/compare/pair_tasks.h"
#include "lab/compare/sequence_tasks.h"

namespace qkv::comparison {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(SequenceTasks, RecallAsksForTheOnlySymbol) {
  Random random(1);
  for (const std::int64_t distance : {1, 2, 7}) {
    const SequenceExample example = draw_recall(distance, 3, random);
    ASSERT_EQ(std::ssize(example.tokens), 3 + 1 + distance);
    for (std::size_t i = 0; i < example.tokens.size(); ++i) EXPECT_EQ(example.tokens[i] < kSymbols, i == 3);
    EXPECT_EQ(example.labels.back(), example.tokens[3]);
    EXPECT_EQ(std::count(example.labels.begin(), example.labels.end(), -1), 3 + distance);
  }
}

TEST(SequenceTasks, CopyAsksForAllSymbolsInOrder) {
  Random random(2);
  const SequenceExample example = draw(SequenceTask::copy, 3, random);
  const Tokens& t = example.tokens;
  EXPECT_EQ(t, (Tokens{t[0], t[1], t[2], kSymbols, kSymbols + 1, kSymbols + 1}));
  EXPECT_EQ(example.labels, (Tokens{-1, -1, -1, t[0], t[1], t[2]}));
}

TEST(SequenceTasks, KeysAskForTheirOwnSymbols) {
  Random random(3);
  for (const std::size_t pairs : {1, 5, 16}) {
    const SequenceExample example = draw(SequenceTask::key_value, static_cast<std::int64_t>(pairs), random);
    ASSERT_EQ(example.tokens.size(), 3 * pairs);
    std::map<std::int32_t, std::int32_t> values;
    for (std::size_t i = 0; i < 2 * pairs; i += 2) {
      EXPECT_TRUE(values.emplace(example.tokens[i], example.tokens[i + 1]).second);
      EXPECT_EQ(example.labels[i], -1);
      EXPECT_EQ(example.labels[i + 1], -1);
    }
    std::set<std::int32_t> asked;
    for (std::size_t i = 2 * pairs; i < example.tokens.size(); ++i) {
      EXPECT_EQ(example.labels[i], values.at(example.tokens[i]));
      EXPECT_TRUE(asked.insert(example.tokens[i]).second);
    }
  }
}

TEST(SequenceTasks, ExamplesAreThoseOfTheirNumbersAlone) {
  for (const SequenceTask task : {SequenceTask::recall, SequenceTask::copy, SequenceTask::key_value}) {
    const SequenceExamples examples(task, 7, 100), others(task, 8, 100);
    const std::vector<std::uint32_t> both{12, 40}, second{40};
    const SequenceBatch two = examples.collect(both), one = examples.collect(second);
    EXPECT_TRUE(std::equal(one.tokens.rbegin(), one.tokens.rend(), two.tokens.rbegin()));
    EXPECT_EQ(std::ssize(one.tokens), examples.size(40).length);
    EXPECT_NE(examples.checksum(), others.checksum());
    EXPECT_NE(two.tokens, others.collect(both).tokens);
    for (const std::int32_t token : two.tokens) EXPECT_LT(token, vocab_of(task));
  }
}

// 4,000 draws of 10 symbols: a share has a deviation of 0.0047.
TEST(SequenceTasks, SymbolsAreEven) {
  const std::vector<std::int64_t> extents(1000, 4);
  const SequenceBatch batch = draw_batch(SequenceTask::copy, extents, 9);
  for (std::int32_t symbol = 0; symbol < kSymbols; ++symbol) {
    EXPECT_NEAR(static_cast<double>(std::count(batch.labels.begin(), batch.labels.end(), symbol)) / 4000, 0.1, 0.02);
  }
}

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
  EXPECT_EQ(book.pairs[0].source, (Tokens{0, 1, 4}));
  EXPECT_EQ(book.pairs[1].source, (Tokens{1, 4}));
  EXPECT_EQ(book.pairs[2].source, (Tokens{0, 0, 4}));
  EXPECT_EQ(book.pairs[2].target, (Tokens{3, 4}));
  EXPECT_EQ(book.by_words.at(2), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(book.by_words.at(1), (std::vector<std::size_t>{1}));
  EXPECT_EQ(book.tokens.positions, 4);
}

}  // namespace
}  // namespace qkv::comparison
