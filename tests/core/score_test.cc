// Scores as values: which parameters each kind keeps, and which shapes it refuses.
#include "qkv/attention/score.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace qkv {
namespace {

const Tensor kHiddenByFour = Tensor::zeros({3, 4}), kHiddenByFive = Tensor::zeros({3, 5}), kHidden = Tensor::zeros({3});
const Tensor kOther = Tensor::zeros({2}), kOtherByFive = Tensor::zeros({2, 5}), kCube = Tensor::zeros({3, 4, 5});

TEST(Score, DotsHaveNoParameters) {
  EXPECT_EQ(Score::dot().kind(), Score::Kind::dot);
  EXPECT_EQ(Score::scaled_dot().kind(), Score::Kind::scaled_dot);
  EXPECT_FALSE(Score::dot().w_query());
}

TEST(Score, KeepsItsParameters) {
  const Score additive = Score::additive(kHiddenByFour, kHiddenByFive, kHidden);
  EXPECT_EQ(additive.kind(), Score::Kind::additive);
  EXPECT_EQ(additive.w_query().bytes(), kHiddenByFour.view().bytes());
  EXPECT_EQ(additive.w_key().bytes(), kHiddenByFive.view().bytes());
  EXPECT_EQ(additive.v().bytes(), kHidden.view().bytes());
  const Score concat = Score::concat(kHiddenByFour, kHidden);
  EXPECT_EQ(concat.kind(), Score::Kind::concat);
  EXPECT_EQ(concat.w_query().bytes(), kHiddenByFour.view().bytes());
  EXPECT_EQ(concat.v().bytes(), kHidden.view().bytes());
  const Score bilinear = Score::bilinear(kHiddenByFour);
  EXPECT_EQ(bilinear.kind(), Score::Kind::bilinear);
  EXPECT_EQ(bilinear.w_query().bytes(), kHiddenByFour.view().bytes());
}

TEST(Score, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(Score::additive(kCube, kHiddenByFive, kHidden), std::invalid_argument);
  EXPECT_THROW(Score::additive(kHiddenByFour, kOtherByFive, kHidden), std::invalid_argument);
  EXPECT_THROW(Score::additive(kHiddenByFour, kHiddenByFive, kOther), std::invalid_argument);
  EXPECT_THROW(Score::concat(kHidden, kHidden), std::invalid_argument);
  EXPECT_THROW(Score::concat(kHiddenByFour, kOther), std::invalid_argument);
  EXPECT_THROW(Score::bilinear(kCube), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
