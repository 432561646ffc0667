#include "core/worth_waking.h"

#include <gtest/gtest.h>

namespace qkv {
namespace {

// The tests' tensors are small: threads share them all the same, so that what they compute together is tested.
const bool shared = [] {
  set_least_share({1, 1});
  return true;
}();

TEST(WorthWaking, AShareForEachThread) {
  set_least_share({});
  EXPECT_EQ(worth_waking(8, 0, 0), 1);
  EXPECT_EQ(worth_waking(8, 999'999, 0), 1);
  EXPECT_EQ(worth_waking(8, 1'000'000, 0), 2);
  EXPECT_EQ(worth_waking(8, 0, 3 << 18), 3);
  EXPECT_EQ(worth_waking(2, 1e18, 1e18), 2);
  // One query of 8 heads over 16 keys of 64.
  EXPECT_EQ(worth_waking(2, 8 * 16 * 128, 8 * 17 * 128 * 4), 1);
  set_least_share({1, 1});
}

}  // namespace
}  // namespace qkv
