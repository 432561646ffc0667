// Learning rates worked out by hand.
#include "qkv/train/schedule.h"

#include <gtest/gtest.h>

namespace qkv {
namespace {

TEST(Schedule, WarmsUpInAStraightLine) {
  for (const Decay decay : {Decay::inverse_sqrt, Decay::cosine}) {
    const ScheduleConfig config{.rate = 0.8, .warmup = 4, .decay = decay};
    EXPECT_DOUBLE_EQ(learning_rate(config, 1, 100), 0.2);
    EXPECT_DOUBLE_EQ(learning_rate(config, 3, 100), 0.6);
    EXPECT_DOUBLE_EQ(learning_rate(config, 4, 100), 0.8);
  }
}

TEST(Schedule, FallsWithTheRootOfTheStep) {
  const ScheduleConfig config{.rate = 0.8, .warmup = 4};
  EXPECT_DOUBLE_EQ(learning_rate(config, 16, 100), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(config, 100, 100), 0.16);
}

TEST(Schedule, FallsAsACosine) {
  const ScheduleConfig config{.rate = 0.8, .warmup = 4, .decay = Decay::cosine};
  EXPECT_DOUBLE_EQ(learning_rate(config, 8, 16), 0.6);   // a third of the way: cos(60 degrees) = 1/2
  EXPECT_DOUBLE_EQ(learning_rate(config, 10, 16), 0.4);  // half of it
  EXPECT_NEAR(learning_rate(config, 16, 16), 0, 1e-16);
}

TEST(Schedule, WithoutWarmupBeginsAtTheHighest) {
  EXPECT_DOUBLE_EQ(learning_rate({.rate = 0.8, .warmup = 0}, 1, 100), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate({.rate = 0.8, .warmup = 0}, 4, 100), 0.4);
}

}  // namespace
}  // namespace qkv
