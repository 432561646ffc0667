// Pairs as examples, and their batches: every pair once, sizes, and orders that depend on seed and epoch alone.
#include "train/batches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"
#include "qkv/random.h"
#include "qkv/train/examples.h"

namespace qkv {
namespace {

using training::Batches;
using training::make_batches;

TEST(PairExamples, AreCollectedSideBySide) {
  const std::vector<TokenPair> pairs{{{1, 2}, {3}}, {{4}, {5, 6, 7}}};
  const PairExamples examples(pairs);
  EXPECT_EQ(examples.count(), 2);
  EXPECT_EQ(examples.size(1).cost, 4);  // the tokens of both sides
  EXPECT_EQ(examples.size(1).length, 3);
  const std::vector<std::uint32_t> chosen{1, 0};
  const PairBatch batch = examples.collect(chosen);
  EXPECT_EQ(batch.source, (std::vector<std::int32_t>{4, 1, 2}));
  EXPECT_EQ(batch.target, (std::vector<std::int32_t>{5, 6, 7, 3}));
  test::expect_equal(batch.source_offsets, Tensor::of<std::int32_t>({3}, {0, 1, 3}));
  test::expect_equal(batch.target_offsets, Tensor::of<std::int32_t>({3}, {0, 3, 4}));
}

TEST(PairExamples, AreKnownByTokensAndEnds) {
  const auto checksum = [](const std::vector<TokenPair>& pairs) { return PairExamples(pairs).checksum(); };
  EXPECT_EQ(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1}, {2, 3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {4}}}));
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { checksum({{{1}, {1}}, {{1}, {}}}); }),
            "train: pair 1 (from 0) has an empty side");
}

std::vector<TokenPair> pairs_of_lengths(std::size_t count) {
  Random random(1);
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    pairs.push_back({std::vector<std::int32_t>(1 + random.below(40)), std::vector<std::int32_t>(1 + random.below(40))});
  }
  return pairs;
}

TEST(Batches, HoldEachPairOnceWithinTheirTokens) {
  const auto pairs = pairs_of_lengths(2000);
  std::vector<std::uint32_t> all, wanted;
  std::size_t full = 0, alike = 0;
  const Batches batches = make_batches(PairExamples(pairs), 500, 1, 0);
  for (const auto& batch : batches) {
    ASSERT_FALSE(batch.empty());
    std::size_t tokens = 0, least = 40, most = 0;
    for (const std::uint32_t i : batch) {
      tokens += pairs[i].source.size() + pairs[i].target.size();
      least = std::min(least, pairs[i].target.size());
      most = std::max(most, pairs[i].target.size());
    }
    EXPECT_LE(tokens, 500u);
    full += tokens > 400;
    alike += most - least < 4;  // targets of like length are together
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_GE(full, batches.size() - 2);
  EXPECT_GE(alike, batches.size() * 8 / 10);  // the others hold what was left in the buckets
  std::sort(all.begin(), all.end());
  for (std::uint32_t i = 0; i < pairs.size(); ++i) wanted.push_back(i);
  EXPECT_EQ(all, wanted);
}

TEST(Batches, AreDrawnFromSeedAndEpoch) {
  const auto pairs = pairs_of_lengths(300);
  const auto batches = [&](std::uint64_t seed, std::uint64_t epoch) {
    return make_batches(PairExamples(pairs), 200, seed, epoch);
  };
  EXPECT_EQ(batches(1, 4), batches(1, 4));
  EXPECT_NE(batches(1, 4), batches(1, 5));
  EXPECT_NE(batches(1, 4), batches(2, 4));
}

TEST(Batches, APairThatIsTooLongIsABatch) {
  const std::vector<TokenPair> pairs{{{1}, {1}}, {{1, 2, 3, 4}, {1, 2, 3, 4}}, {{2}, {2}}};
  for (const auto& batch : make_batches(PairExamples(pairs), 4, 1, 0)) {
    const bool has_long = std::find(batch.begin(), batch.end(), 1u) != batch.end();
    EXPECT_EQ(batch.size(), has_long ? 1u : 2u);
  }
  EXPECT_TRUE(make_batches(PairExamples({}), 4, 1, 0).empty());
}

}  // namespace
}  // namespace qkv
