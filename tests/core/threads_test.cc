// parallel_for: every index once, exceptions, nesting, fork, a caller's own pool, the number of threads, and how many
// are worth waking.
#include "qkv/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/default_threads.h"
#include "core/meeting.h"
#include "core/thread_pool.h"
#include "core/worth_waking.h"
#include "io/files_for_test.h"
#include "qkv/matmul.h"

namespace qkv {
namespace {

// How often each index was visited, and whether every worker's number was in range.
std::vector<int> visits(std::int64_t tasks, int workers) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(tasks));
  parallel_for(tasks, workers, [&](std::int64_t index, int worker) {
    ++counts[static_cast<std::size_t>(index)];
    if (worker < 0 || worker >= workers) counts[static_cast<std::size_t>(index)] += 1000;
  });
  return {counts.begin(), counts.end()};
}

bool all_once(const std::vector<int>& counts) { return std::ranges::count(counts, 1) == std::ssize(counts); }

TEST(Threads, EveryIndexOnce) {
  for (const int workers : {1, 2, 3, 4, 7, 33}) {
    for (const std::int64_t tasks : {0, 1, 2, 5, 100, 10'000}) {
      EXPECT_TRUE(all_once(visits(tasks, workers))) << tasks << " tasks, " << workers << " workers";
    }
  }
}

// Tasks that wait for each other can only end if as many threads run them.
void run_at_once(int count) {
  std::atomic<int> arrived{0};
  parallel_for(count, count, [&](std::int64_t, int) { test::meet(arrived, count); });
  EXPECT_EQ(arrived, count);
}

TEST(Threads, NestedCallsRunOnTheirCallersThread) {
  std::atomic<int> sum{0}, strangers{0};
  parallel_for(8, 4, [&](std::int64_t, int) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(10, 4, [&](std::int64_t index, int worker) {
      sum += static_cast<int>(index);
      strangers += worker != 0 || std::this_thread::get_id() != outer;
    });
  });
  EXPECT_EQ(sum, 8 * 45);
  EXPECT_EQ(strangers, 0);
}

TEST(Threads, CallersFromSeveralThreads) {
  std::vector<std::jthread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([] {
      for (int round = 0; round < 20; ++round) EXPECT_TRUE(all_once(visits(50, 3)));
    });
  }
}

TEST(Threads, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int workers : {1, 4}) {
    std::atomic<int> begun{0};
    const auto failing = [&](std::int64_t index, int) {
      ++begun;
      if (index == 3) throw std::runtime_error("task 3");
    };
    const auto call = [&] { parallel_for(1'000'000, workers, failing); };
    EXPECT_EQ(test::message_of<std::runtime_error>(call), "task 3");
    EXPECT_LT(begun, 1'000'000);
    EXPECT_TRUE(all_once(visits(100, workers)));
  }
}

// A call after an exception must not be taken for a nested one.
TEST(Threads, ThrowingTasksLeaveTheNextCallParallel) {
  EXPECT_THROW(parallel_for(4, 2, [](std::int64_t, int) { throw std::runtime_error("each"); }), std::runtime_error);
  run_at_once(2);
}

TEST(Threads, WorkInAChildAfterFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer forbids new threads in such a child";
#endif
  ASSERT_TRUE(all_once(visits(100, 4)));
  EXPECT_EQ(test::exit_code_of_child([] { return all_once(visits(100, 4)) ? 0 : 1; }), 0);
  EXPECT_TRUE(all_once(visits(100, 4)));
}

TEST(Threads, ACallersOwnRunner) {
  const int before = test::backward_runs;
  set_parallel_runner(test::run_backwards);
  std::vector<std::int64_t> order;
  parallel_for(4, 2, [&](std::int64_t index, int worker) {
    order.push_back(index);
    EXPECT_EQ(worker, 1);
  });
  set_parallel_runner(nullptr);
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 2, 1, 0}));
  EXPECT_TRUE(all_once(visits(10, 2)));
  EXPECT_EQ(test::backward_runs, before + 1);
}

TEST(Threads, SetThreads) {
  const int before = threads();
  set_threads(5);
  for (const int wrong : {-1, 1025}) EXPECT_THROW(set_threads(wrong), std::invalid_argument);
  EXPECT_EQ(threads(), 5);
  set_threads(0);
  EXPECT_EQ(threads(), before);
  EXPECT_GE(hardware_threads(), 1);
}

// What this program exits with where it runs one of the tests below again, in an environment of its own.
int exit_code_of_test(const char* filter, const char* threads = nullptr) {
  return test::exit_code_of_child([&] {
    if (threads != nullptr) setenv("QKV_THREADS", threads, 1);
    for (const char* shard : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(shard);  // all tests are its own
    execl("/proc/self/exe", "qkv_test_core", filter, "--gtest_also_run_disabled_tests", "--gtest_brief=1",
          static_cast<char*>(nullptr));
    return 127;
  });
}

constexpr int kRefused = 250;

TEST(ThreadsChild, DISABLED_ReportsItsThreads) {
  int count = kRefused;
  try {
    count = threads();
  } catch (const std::invalid_argument&) {
  }
  std::_Exit(count);
}

// A process may end while a thread of its own, and the pool's, are inside tasks.
TEST(ThreadsChild, DISABLED_EndsWithinTasks) {
  std::atomic<int> begun{0};
  std::thread([&] {
    parallel_for(2, 2, [&](std::int64_t, int) {
      ++begun;
      for (;;) std::this_thread::yield();
    });
  }).detach();
  while (begun < 2) std::this_thread::yield();
  std::exit(7);
}

TEST(Threads, NothingIsJoinedAtExit) { EXPECT_EQ(exit_code_of_test("--gtest_filter=ThreadsChild.*Ends*"), 7); }

// The environment is read once per process.
TEST(Threads, EnvironmentNamesTheNumber) {
  const auto threads_with = [](const char* value) {
    return exit_code_of_test("--gtest_filter=ThreadsChild.*Reports*", value);
  };
  EXPECT_EQ(threads_with("3"), 3);
  EXPECT_EQ(threads_with("200"), 200);
  EXPECT_EQ(threads_with(""), default_threads(process_surroundings()).count);
  for (const char* wrong : {"0", "-1", "1025", "two", "2 ", " 2", "2x", "99999999999999999999"}) {
    EXPECT_EQ(threads_with(wrong), kRefused) << '"' << wrong << '"';
  }
}

TEST(Threads, ACallerThatFindsThePoolBusyComputesAlone) {
  std::atomic<bool> done{false};
  std::atomic<int> begun{0};
  std::thread first([&] {
    parallel_for(2, 2, [&](std::int64_t, int) {
      ++begun;
      while (!done) std::this_thread::yield();
    });
  });
  while (begun < 2) std::this_thread::yield();
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<int> counts(100);
  parallel_for(100, 4, [&](std::int64_t index, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    ++counts[static_cast<std::size_t>(index)];
  });
  done = true;
  first.join();
  EXPECT_TRUE(all_once(counts));
}

TEST(Threads, OnlyThoseThatAreWantedAreWoken) {
  run_at_once(4);
  test::wait_until_all_sleep();
  const std::int64_t before = process_pool().wakes();
  run_at_once(2);
  EXPECT_EQ(process_pool().wakes(), before + 1);
  parallel_for(1, 4, [](std::int64_t, int) {});
  EXPECT_EQ(process_pool().wakes(), before + 1);
}

// With shares as programs have them, which tests make small.
class WorthWaking : public ::testing::Test {
 protected:
  WorthWaking() { set_least_share({}); }
  ~WorthWaking() override { set_least_share({1, 1}); }
};

TEST_F(WorthWaking, AShareForEachThread) {
  const struct {
    int threads;
    double multiply_adds, bytes;
    int count;
  } rows[] = {
      {8, 0, 0, 1},         {8, 1'999'999, 0, 1},
      {8, 2'000'000, 0, 2}, {8, 0, 3 << 19, 3},
      {2, 1e18, 1e18, 2},   {2, 8 * 16 * 128, 8 * 17 * 128 * 4, 1},  // one query of 8 heads over 16 keys of 64
  };
  for (const auto& row : rows) EXPECT_EQ(worth_waking(row.threads, row.multiply_adds, row.bytes), row.count);
}

TEST_F(WorthWaking, ThoseThatAreAwakeTakePart) {
  test::wait_until_all_sleep();
  EXPECT_EQ(worth_sharing(8, 1, 1), 1);
  std::atomic<int> arrived{0};
  parallel_for(3, 3, [&](std::int64_t, int) {
    test::meet(arrived, 3);
    EXPECT_GE(worth_sharing(8, 1, 1), 3);
    EXPECT_EQ(worth_sharing(2, 1, 1), 2);
    EXPECT_EQ(worth_sharing(8, 8'000'000, 1), 8);
    test::meet(arrived, 6);
  });
}

TEST_F(WorthWaking, ALoneSmallProductWakesNobody) {
  const Tensor a = Tensor::zeros({1, 256}), b = Tensor::zeros({256, 256});
  const PackedMatrix packed(b.view(), 1);
  Tensor out = Tensor::zeros({1, 256});
  parallel_for(2, 2, [](std::int64_t, int) {});  // so that there is somebody to wake
  test::wait_until_all_sleep();
  const std::int64_t before = process_pool().wakes();
  matmul(a.view(), packed, out, {.threads = 2});
  EXPECT_EQ(process_pool().wakes(), before);
}

}  // namespace
}  // namespace qkv
