// parallel_for: every index once, exceptions, nesting, fork, a caller's own pool, and the number of threads.
#include "qkv/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/default_threads.h"
#include "core/thread_pool.h"

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

TEST(Threads, EveryIndexOnce) {
  for (const int workers : {1, 2, 3, 4, 7, 33}) {
    for (const std::int64_t tasks : {0, 1, 2, 5, 100, 10'000}) {
      EXPECT_EQ(visits(tasks, workers), std::vector<int>(static_cast<std::size_t>(tasks), 1)) << workers << " workers";
    }
  }
}

// Two tasks that wait for each other can only end if two threads run them.
TEST(Threads, WorkersRunAtTheSameTime) {
  std::atomic<int> arrived{0};
  parallel_for(2, 2, [&](std::int64_t, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
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
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) wrong += visits(50, 3) != std::vector<int>(50, 1);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, AnExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int workers : {1, 4}) {
    std::atomic<int> begun{0};
    const auto failing = [&](std::int64_t index, int) {
      ++begun;
      if (index == 3) throw std::runtime_error("task 3");
    };
    try {
      parallel_for(1'000'000, workers, failing);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 3");
    }
    EXPECT_LT(begun, 1'000'000);
    EXPECT_EQ(visits(100, workers), std::vector<int>(100, 1));
  }
}

// A call after an exception must not be taken for a nested one.
TEST(Threads, ThrowingTasksLeaveTheNextCallParallel) {
  EXPECT_THROW(parallel_for(4, 2, [](std::int64_t, int) { throw std::runtime_error("each"); }), std::runtime_error);
  std::atomic<int> arrived{0};
  parallel_for(2, 2, [&](std::int64_t, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

template <class Body>
int exit_code_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Threads, WorkInAChildAfterFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer forbids new threads in such a child";
#endif
  ASSERT_EQ(visits(100, 4), std::vector<int>(100, 1));
  EXPECT_EQ(exit_code_of_child([] { return visits(100, 4) == std::vector<int>(100, 1) ? 0 : 1; }), 0);
  EXPECT_EQ(visits(100, 4), std::vector<int>(100, 1));
}

int runner_calls = 0;

// From the last index to the first, on the caller's thread.
void backwards(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int), void* context) {
  ++runner_calls;
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, workers - 1);
}

TEST(Threads, ACallersOwnRunner) {
  set_parallel_runner(backwards);
  std::vector<std::int64_t> order;
  parallel_for(4, 2, [&](std::int64_t index, int worker) {
    order.push_back(index);
    EXPECT_EQ(worker, 1);
  });
  set_parallel_runner(nullptr);
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(runner_calls, 1);
  EXPECT_EQ(visits(10, 2), std::vector<int>(10, 1));
  EXPECT_EQ(runner_calls, 1);
}

TEST(Threads, SetThreads) {
  const int before = threads();
  set_threads(5);
  EXPECT_EQ(threads(), 5);
  EXPECT_THROW(set_threads(-1), std::invalid_argument);
  EXPECT_THROW(set_threads(1025), std::invalid_argument);
  EXPECT_EQ(threads(), 5);
  set_threads(0);
  EXPECT_EQ(threads(), before);
  EXPECT_GE(hardware_threads(), 1);
}

// The environment is read once per process, so each value gets a process of its own: this program, run again for the
// one test below.
int threads_with(const std::string& value) {
  return exit_code_of_child([&] {
    setenv("QKV_THREADS", value.c_str(), 1);
    for (const char* shard : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(shard);  // all tests are its own
    execl("/proc/self/exe", "qkv_test_core", "--gtest_filter=ThreadsChild.*Reports*", "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", static_cast<char*>(nullptr));
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

TEST(Threads, NothingIsJoinedAtExit) {
  EXPECT_EQ(exit_code_of_child([] {
              for (const char* shard : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) unsetenv(shard);
              execl("/proc/self/exe", "qkv_test_core", "--gtest_filter=ThreadsChild.*Ends*",
                    "--gtest_also_run_disabled_tests", "--gtest_brief=1", static_cast<char*>(nullptr));
              return 127;
            }),
            7);
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
  EXPECT_EQ(counts, std::vector<int>(100, 1));
}

TEST(Threads, OnlyThoseThatAreWantedAreWoken) {
  const auto meet = [](int count) {  // all of them at once
    std::atomic<int> arrived{0};
    parallel_for(count, count, [&](std::int64_t, int) {
      ++arrived;
      while (arrived < count) std::this_thread::yield();
    });
  };
  meet(4);
  while (process_pool().awake() > 0) std::this_thread::yield();
  const std::int64_t before = process_pool().wakes();
  meet(2);
  EXPECT_EQ(process_pool().wakes(), before + 1);
  parallel_for(1, 4, [](std::int64_t, int) {});
  EXPECT_EQ(process_pool().wakes(), before + 1);
}

TEST(Threads, EnvironmentNamesTheNumber) {
  EXPECT_EQ(threads_with("3"), 3);
  EXPECT_EQ(threads_with("200"), 200);
  EXPECT_EQ(threads_with(""), default_threads(process_surroundings()).count);
  for (const char* wrong : {"0", "-1", "1025", "two", "2 ", " 2", "2x", "99999999999999999999"}) {
    EXPECT_EQ(threads_with(wrong), kRefused) << '"' << wrong << '"';
  }
}

}  // namespace
}  // namespace qkv
