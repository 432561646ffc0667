// Counting the bytes of a call, and its limit.
#include "attention/call/memory_count.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace qkv {
namespace {

TEST(MemoryCount, KnowsWhatIsKeptAndTheMostAtATime) {
  MemoryCount memory;
  memory.keep(100);
  memory.borrow(70);
  memory.keep(10);
  EXPECT_EQ(memory.kept(), 110u);
  EXPECT_EQ(memory.most_with(0), 170u);
  EXPECT_EQ(memory.most_with(60), 170u);
  EXPECT_EQ(memory.most_with(61), 171u);
}

TEST(MemoryCount, KeepsTheLimit) {
  MemoryCount memory(1000);
  memory.keep(400);
  EXPECT_NO_THROW(memory.borrow(600));
  EXPECT_THROW(memory.borrow(601), std::invalid_argument);
  EXPECT_THROW(MemoryCount(1000).keep(1001), std::invalid_argument);
  EXPECT_THROW(MemoryCount(-1), std::invalid_argument);
}

TEST(MemoryCount, LeavesAsManyThreadsAsTheLimitAllows) {
  const auto workspace = [](int threads) { return std::size_t{200} * static_cast<std::size_t>(threads); };
  MemoryCount memory(1000), free;
  memory.keep(400);
  EXPECT_EQ(memory.threads_within(8, workspace), 3);
  EXPECT_EQ(memory.threads_within(2, workspace), 2);
  EXPECT_EQ(free.threads_within(8, workspace), 8);
  MemoryCount tight(599);
  tight.keep(400);
  EXPECT_THROW(tight.threads_within(8, workspace), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
