// Biases as values: `+` keeps every part.
#include "qkv/attention/bias.h"

#include <gtest/gtest.h>

namespace qkv {
namespace {

TEST(Bias, PlainOneIsEmpty) { EXPECT_TRUE(Bias().empty()); }

TEST(Bias, SumKeepsEveryPart) {
  const Tensor values = Tensor::zeros({3, 4}), slopes = Tensor::zeros({2});
  EXPECT_FALSE(Bias::view(values).empty());
  EXPECT_FALSE(Bias::alibi(slopes).empty());
  const Bias bias = Bias::view(values) + Bias::alibi(slopes) + Bias::view(values);
  ASSERT_EQ(bias.views().size(), 2u);
  EXPECT_EQ(bias.views()[1].shape(), (Dims{3, 4}));
  ASSERT_EQ(bias.alibi_slopes().size(), 1u);
  EXPECT_EQ(bias.alibi_slopes()[0].shape(), (Dims{2}));
  const Bias tables =
      Bias::table(RelativeTable::clipped(values)) + (bias + Bias::table(RelativeTable::clipped(values)));
  ASSERT_EQ(tables.tables().size(), 2u);
  EXPECT_EQ(tables.tables()[1].values().shape(), (Dims{3, 4}));
}

}  // namespace
}  // namespace qkv
