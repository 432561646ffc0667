#include "core/worth_waking.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/thread_pool.h"
#include "qkv/matmul.h"
#include "qkv/threads.h"

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
  EXPECT_EQ(worth_waking(8, 1'999'999, 0), 1);
  EXPECT_EQ(worth_waking(8, 2'000'000, 0), 2);
  EXPECT_EQ(worth_waking(8, 0, 3 << 19), 3);
  EXPECT_EQ(worth_waking(2, 1e18, 1e18), 2);
  // One query of 8 heads over 16 keys of 64.
  EXPECT_EQ(worth_waking(2, 8 * 16 * 128, 8 * 17 * 128 * 4), 1);
  set_least_share({1, 1});
}

TEST(WorthSharing, ThoseThatAreAwakeTakePart) {
  set_least_share({});
  while (process_pool().awake() > 0) std::this_thread::yield();
  EXPECT_EQ(worth_sharing(8, 1, 1), 1);
  std::atomic<int> arrived{0};
  parallel_for(3, 3, [&](std::int64_t, int) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    EXPECT_GE(worth_sharing(8, 1, 1), 3);
    EXPECT_EQ(worth_sharing(2, 1, 1), 2);
    EXPECT_EQ(worth_sharing(8, 8'000'000, 1), 8);
    ++arrived;
    while (arrived < 6) std::this_thread::yield();
  });
  set_least_share({1, 1});
}

TEST(WorthSharing, ALoneSmallProductWakesNobody) {
  set_least_share({});
  const Tensor a = Tensor::zeros({1, 256}), b = Tensor::zeros({256, 256});
  const PackedMatrix packed(b.view(), 1);
  Tensor out = Tensor::zeros({1, 256});
  parallel_for(2, 2, [](std::int64_t, int) {});  // so that there is somebody to wake
  while (process_pool().awake() > 0) std::this_thread::yield();
  const std::int64_t before = process_pool().wakes();
  matmul(a.view(), packed, out, {.threads = 2});
  EXPECT_EQ(process_pool().wakes(), before);
  set_least_share({1, 1});
}

}  // namespace
}  // namespace qkv
