// Spearman's rank correlation, by hand; the ties as scipy.stats.spearmanr has them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "explain/weight_measures.h"

namespace qkv {
namespace {

using Numbers = std::vector<double>;

TEST(RankCorrelation, OnlyTheOrderCounts) {
  EXPECT_DOUBLE_EQ(*rank_correlation(Numbers{1, 2, 1000}, Numbers{-5, 0, 0.1}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation(Numbers{3, 2, 1}, Numbers{-5, 0, 0.1}), -1);
  // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, -1, 0: 1 - 12 / 60.
  EXPECT_DOUBLE_EQ(*rank_correlation(Numbers{1, 2, 3, 4}, Numbers{1, 3, 2, 4}), 0.8);
}

// Ranks 0, 1.5, 1.5, 3 and 0, 2, 1, 3: 4.5 / sqrt(4.5 * 5).
TEST(RankCorrelation, TiesShareTheMeanOfTheirRanks) {
  EXPECT_DOUBLE_EQ(*rank_correlation(Numbers{1, 2, 2, 3}, Numbers{1, 3, 2, 4}), 4.5 / std::sqrt(22.5));
  EXPECT_DOUBLE_EQ(*rank_correlation(Numbers{0, 0, 1}, Numbers{5, 5, 7}), 1);
}

TEST(RankCorrelation, NoneWhereNothingIsRanked) {
  EXPECT_FALSE(rank_correlation(Numbers{}, Numbers{}));
  EXPECT_FALSE(rank_correlation(Numbers{1}, Numbers{1}));
  EXPECT_FALSE(rank_correlation(Numbers{1, 1, 1}, Numbers{1, 2, 3}));
  EXPECT_FALSE(rank_correlation(Numbers{1, 2}, Numbers{1, 2, 3}));
  for (const double strange : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(rank_correlation(Numbers{1, strange}, Numbers{1, 2}));
    EXPECT_FALSE(rank_correlation(Numbers{1, 2}, Numbers{strange, 2}));
  }
}

}  // namespace
}  // namespace qkv
