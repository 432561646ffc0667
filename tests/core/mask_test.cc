// Masks as values: what each part says, and what `&` makes of two.
#include "qkv/attention/mask.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace qkv {
namespace {

TEST(Mask, PlainOneHidesNothing) {
  const Mask mask;
  EXPECT_FALSE(mask.align());
  EXPECT_EQ(mask.left(), -1);
  EXPECT_EQ(mask.right(), -1);
  EXPECT_TRUE(mask.length_views().empty());
  EXPECT_TRUE(mask.boolean_views().empty());
}

TEST(Mask, CausalEndsAtTheQuery) {
  const Mask mask = Mask::causal(Align::bottom_right);
  EXPECT_EQ(mask.align(), Align::bottom_right);
  EXPECT_EQ(mask.left(), -1);
  EXPECT_EQ(mask.right(), 0);
  EXPECT_EQ(Mask::causal().align(), Align::top_left);
}

TEST(Mask, TheTighterBoundWins) {
  const Mask mask = Mask::window(3, 5) & Mask::window(4, -1) & Mask::window(-1, 2);
  EXPECT_EQ(mask.left(), 3);
  EXPECT_EQ(mask.right(), 2);
  EXPECT_EQ((mask & Mask::causal()).right(), 0);
  EXPECT_EQ((Mask::causal() & mask).left(), 3);
}

TEST(Mask, WindowWithoutAlignmentTakesThatOfTheOtherPart) {
  EXPECT_EQ((Mask::window(1, 1) & Mask::causal(Align::bottom_right)).align(), Align::bottom_right);
  EXPECT_EQ((Mask::causal(Align::bottom_right) & Mask::window(1, 1)).align(), Align::bottom_right);
  EXPECT_EQ(Mask::window(1, 1, Align::bottom_right).align(), Align::bottom_right);
}

TEST(Mask, RefusesTwoAlignmentsAndNegativeWindows) {
  EXPECT_THROW(Mask::causal(Align::top_left) & Mask::causal(Align::bottom_right), std::invalid_argument);
  EXPECT_THROW(Mask::window(-2, 0), std::invalid_argument);
  EXPECT_THROW(Mask::window(0, -2), std::invalid_argument);
}

TEST(Mask, DilatedWindowReachesItsSteps) {
  const Mask mask = Mask::dilated(3, -1, 4);
  EXPECT_EQ(mask.left(), 12);
  EXPECT_EQ(mask.right(), -1);
  EXPECT_EQ(mask.step(), 4);
  EXPECT_FALSE(mask.align());
  EXPECT_EQ(Mask::dilated(0, 0, 7).left(), 0);
  EXPECT_GE(Mask::dilated(std::int64_t{1} << 62, 1, 1 << 20).left(), std::int64_t{1} << 31);  // nothing overflows
  EXPECT_EQ(Mask().step(), 1);
}

TEST(Mask, StepsCombineToTheirLeastCommonMultiple) {
  EXPECT_EQ((Mask::dilated(-1, -1, 4) & Mask::dilated(-1, -1, 6)).step(), 12);
  EXPECT_EQ((Mask::dilated(-1, -1, 4) & Mask::causal()).step(), 4);
  // Beyond every distance of a call: the query's own position alone.
  const Mask far =
      Mask::dilated(-1, -1, (std::int64_t{1} << 31) - 1) & Mask::dilated(-1, -1, (std::int64_t{1} << 30) + 1);
  EXPECT_GT(far.step(), std::int64_t{1} << 31);
}

TEST(Mask, RefusesStepsBelowOne) {
  EXPECT_THROW(Mask::dilated(1, 1, 0), std::invalid_argument);
  EXPECT_THROW(Mask::dilated(1, 1, -3), std::invalid_argument);
  EXPECT_THROW(Mask::dilated(-2, 1, 2), std::invalid_argument);
}

TEST(Mask, PrefixIsAlignedLikeCausal) {
  const Tensor counts = Tensor::zeros({2}, Dtype::i32);
  EXPECT_EQ(Mask::prefix(counts).align(), Align::top_left);
  EXPECT_EQ(Mask::prefix(counts, Align::bottom_right).align(), Align::bottom_right);
  EXPECT_THROW(Mask::prefix(counts) & Mask::causal(Align::bottom_right), std::invalid_argument);
  EXPECT_EQ((Mask::prefix(counts) & Mask::prefix(counts)).prefix_views().size(), 2u);
}

TEST(Mask, KeepsAllViews) {
  const Tensor lengths = Tensor::zeros({2}, Dtype::i64), visible = Tensor::zeros({3, 4}, Dtype::boolean);
  const Mask mask = Mask::lengths(lengths) & Mask::boolean(visible) & Mask::boolean(visible);
  ASSERT_EQ(mask.length_views().size(), 1u);
  EXPECT_EQ(mask.length_views()[0].shape(), (Dims{2}));
  ASSERT_EQ(mask.boolean_views().size(), 2u);
  EXPECT_EQ(mask.boolean_views()[1].shape(), (Dims{3, 4}));
  const Mask documents = Mask::documents(lengths) & (mask & Mask::documents(lengths, visible));
  ASSERT_EQ(documents.document_ids().size(), 2u);
  EXPECT_EQ(documents.document_ids()[0].key.shape(), (Dims{2}));
  EXPECT_EQ(documents.document_ids()[1].key.shape(), (Dims{3, 4}));
}

}  // namespace
}  // namespace qkv
