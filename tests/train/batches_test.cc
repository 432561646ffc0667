// Batches: every pair once, sizes, and orders that depend on seed and epoch alone.
#include "train/batches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/tiny_model.h"

namespace qkv {
namespace {

using training::Batches;
using training::make_batches;

std::vector<TokenPair> pairs_of_lengths(std::size_t count) {
  Random random(1);
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    pairs.push_back({std::vector<std::int32_t>(1 + random.below(40)), std::vector<std::int32_t>(1 + random.below(40))});
  }
  return pairs;
}

std::size_t tokens_of(const std::vector<TokenPair>& pairs, const std::vector<std::uint32_t>& batch) {
  std::size_t tokens = 0;
  for (const std::uint32_t i : batch) tokens += pairs[i].source.size() + pairs[i].target.size();
  return tokens;
}

TEST(Batches, HoldEachPairOnceWithinTheirTokens) {
  const auto pairs = pairs_of_lengths(2000);
  std::vector<std::uint32_t> all;
  std::size_t full = 0;
  const Batches batches = make_batches(PairExamples(pairs), 500, 1, 0);
  for (const auto& batch : batches) {
    EXPECT_FALSE(batch.empty());
    EXPECT_LE(tokens_of(pairs, batch), 500u);
    full += tokens_of(pairs, batch) > 400;
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_GE(full, batches.size() - 2);
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), pairs.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
}

TEST(Batches, PutTargetsOfLikeLengthTogether) {
  const auto pairs = pairs_of_lengths(2000);
  std::size_t alike = 0;
  const Batches batches = make_batches(PairExamples(pairs), 500, 1, 0);
  for (const auto& batch : batches) {
    const auto [least, most] = std::minmax_element(batch.begin(), batch.end(), [&](std::uint32_t a, std::uint32_t b) {
      return pairs[a].target.size() < pairs[b].target.size();
    });
    alike += pairs[*most].target.size() - pairs[*least].target.size() < 4;
  }
  EXPECT_GE(alike, batches.size() * 8 / 10);  // the others hold what was left in the buckets
}

TEST(Batches, AreDrawnFromSeedAndEpoch) {
  const auto pairs = pairs_of_lengths(300);
  EXPECT_EQ(make_batches(PairExamples(pairs), 200, 1, 4), make_batches(PairExamples(pairs), 200, 1, 4));
  EXPECT_NE(make_batches(PairExamples(pairs), 200, 1, 4), make_batches(PairExamples(pairs), 200, 1, 5));
  EXPECT_NE(make_batches(PairExamples(pairs), 200, 1, 4), make_batches(PairExamples(pairs), 200, 2, 4));
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
