// Pairs as examples: sizes, checksums, batches.
#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "qkv/train/examples.h"

namespace qkv {
namespace {

TEST(PairExamples, AreCollectedSideBySide) {
  const std::vector<TokenPair> pairs{{{1, 2}, {3}}, {{4}, {5, 6, 7}}};
  const std::vector<std::uint32_t> chosen{1, 0};
  const PairBatch batch = PairExamples(pairs).collect(chosen);
  EXPECT_EQ(batch.source, (std::vector<std::int32_t>{4, 1, 2}));
  EXPECT_EQ(batch.target, (std::vector<std::int32_t>{5, 6, 7, 3}));
  const auto offsets = [](const Tensor& t) {
    return std::vector<std::int32_t>(t.data<std::int32_t>(), t.data<std::int32_t>() + t.element_count());
  };
  EXPECT_EQ(offsets(batch.source_offsets), (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(offsets(batch.target_offsets), (std::vector<std::int32_t>{0, 3, 4}));
}

TEST(PairExamples, CostTheTokensOfBothSides) {
  const std::vector<TokenPair> pairs{{{1, 2}, {3}}, {{4}, {5, 6, 7}}};
  const PairExamples examples(pairs);
  EXPECT_EQ(examples.count(), 2);
  EXPECT_EQ(examples.size(1).cost, 4);
  EXPECT_EQ(examples.size(1).length, 3);
}

TEST(PairExamples, AreKnownByTokensAndEnds) {
  const auto checksum = [](const std::vector<TokenPair>& pairs) { return PairExamples(pairs).checksum(); };
  EXPECT_EQ(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1}, {2, 3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {4}}}));
}

TEST(PairExamples, HaveTwoSides) {
  const std::vector<TokenPair> pairs{{{1}, {1}}, {{1}, {}}};
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { PairExamples examples(pairs); }),
            "train: pair 1 (from 0) has an empty side");
}

}  // namespace
}  // namespace qkv
