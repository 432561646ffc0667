// parallel_for: every index once, exceptions, nesting, fork, a caller's own pool, the number of threads, and how many
// are worth waking; how many there are by default; and when a scope's token to stop is asked, on which threads.
#include "qkv/threads.h"

#include "core/core_for_test.h"
#include "core/default_threads.h"
#include "core/stop.h"
#include "core/thread_pool.h"
#include "core/worth_waking.h"
#include "io/files_for_test.h"
#include "qkv/error.h"
#include "qkv/matmul.h"
#include "stop_for_test.h"

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
  unsetenv("QKV_THREADS");  // of whoever runs the tests
  EXPECT_EQ(threads_with(""), default_threads(process_surroundings()).count);
  for (const char* wrong : {"0", "-1", "1025", "two", "2 ", " 2", "2x", "99999999999999999999"}) {
    EXPECT_EQ(threads_with(wrong), kRefused) << '"' << wrong << '"';
  }
}

TEST(Threads, ACallerThatFindsThePoolBusyComputesAlone) {
  std::atomic<bool> done{false};
  std::atomic<int> begun{0};
  const std::jthread first([&] {
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

using Texts = std::map<std::string, std::string>;

Surroundings surroundings(const Texts& variables, int processors, const Texts& files) {
  const auto file = [=](const std::string& path) {
    return files.contains(path) ? std::optional(files.at(path)) : std::nullopt;
  };
  const auto variable = [=](const char* name) {
    return variables.contains(name) ? variables.at(name).c_str() : nullptr;
  };
  return {.variable = variable, .processors = processors, .file = file};
}

// Files of control groups of both versions: quotas by their folders.
Texts second(const std::string& group, const Texts& quotas) {
  Texts files{{"/proc/self/cgroup", "0::" + group + "\n"},
              {"/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"}};
  for (const auto& [folder, quota] : quotas) files["/sys/fs/cgroup" + folder + "/cpu.max"] = quota + "\n";
  return files;
}
Texts first(const std::string& time, const std::string& period) {
  return {{"/proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/x\n"},
          {"/proc/self/mountinfo",
           "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
           "31 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", time + "\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", period + "\n"}};
}

TEST(DefaultThreads, VariablesThenProcessorsAndQuota) {
  using enum ThreadsRule;
  const Texts limited = second("/", {{"", "250000 100000"}});
  const struct {
    Texts variables;
    int processors;
    Texts files;
    int count;
    ThreadsRule rule;
  } rows[] = {
      {{{"QKV_THREADS", "3"}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 3, qkv_threads},
      {{{"QKV_THREADS", ""}, {"OMP_NUM_THREADS", "5"}}, 8, limited, 5, omp_num_threads},
      {{{"OMP_NUM_THREADS", " 4 , 3"}}, 8, {}, 4, omp_num_threads},
      {{{"OMP_NUM_THREADS", "0"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", "-2"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", "4x"}}, 8, {}, 8, affinity},
      {{{"OMP_NUM_THREADS", ""}}, 8, limited, 2, quota},
      {{{"OMP_NUM_THREADS", "99999"}}, 8, {}, kMaxThreads, omp_num_threads},
      {{}, 8, limited, 2, quota},
      {{}, 2, limited, 2, affinity},
      {{}, 1, {}, 1, affinity},
      {{}, 5000, {}, kMaxThreads, affinity},
      {{}, 64, second("/a/b", {}), 64, affinity},
      {{}, 64, second("/a/b", {{"/a/b", "max 100000"}}), 64, affinity},
      {{}, 64, second("/a/b", {{"/a/b", "390000 100000"}}), 3, quota},
      {{}, 64, second("/a/b", {{"/a/b", "50000 100000"}}), 1, quota},
      {{}, 64, second("/a/b", {{"/a/b", "none"}}), 64, affinity},
      // A group above limits, too; in a container the mount's root may be the only one that is there.
      {{}, 64, second("/a/b", {{"/a", "200000 100000"}, {"/a/b", "400000 100000"}}), 2, quota},
      {{}, 64, second("/docker/0123", {{"", "600000 100000"}}), 6, quota},
      {{}, 64, first("-1", "100000"), 64, affinity},
      {{}, 64, first("150000", "50000"), 3, quota},
      {{}, 64, first("1000", "100000"), 1, quota},
  };
  for (const auto& row : rows) {
    const DefaultThreads found = default_threads(surroundings(row.variables, row.processors, row.files));
    EXPECT_EQ(found.count, row.count) << "row " << &row - rows;
    EXPECT_EQ(found.rule, row.rule) << "row " << &row - rows << ": " << name_of(found.rule);
  }
  EXPECT_THROW(default_threads(surroundings({{"QKV_THREADS", "two"}}, 8, {})), std::invalid_argument);
}

// A scope with a token of its own.
struct OwnScope {
  std::stop_source source{};
  std::stop_token token = source.get_token();
  StopScope scope{token};
};

// Of scopes inside one another any may ask, and one without a token changes nothing.
TEST(Stop, AllScopesCount) {
  for (const int asking : {0, 1, 2}) {
    std::stop_source sources[2];
    const std::stop_token outer_token = sources[0].get_token(), inner_token = sources[1].get_token(), none;
    const StopScope outer(outer_token);
    {
      const StopScope inner(inner_token), empty(none);
      if (asking < 2) sources[asking].request_stop();
      EXPECT_EQ(empty.stop_requested(), asking < 2);
      if (asking == 2) continue;
      EXPECT_THROW(check_stop(), Stopped);
    }
    EXPECT_EQ(outer.stop_requested(), asking == 0);
  }
}

// Nothing is asked before, after, in an empty adopted scope or by another thread.
TEST(Stop, ThrowsOnceAScopeOfItsThreadAsksForIt) {
  EXPECT_NO_THROW(check_stop());
  {
    OwnScope own;
    EXPECT_NO_THROW(check_stop());
    own.source.request_stop();
    EXPECT_TRUE(own.scope.stop_requested());
    EXPECT_THROW(check_stop(), Stopped);
    {
      const AdoptedStopScope unasked(nullptr);
      EXPECT_NO_THROW(check_stop());
    }
    std::thread([] { EXPECT_NO_THROW(check_stop()); }).join();
  }
  EXPECT_NO_THROW(check_stop());
}

TEST(Stop, CountsTheChecksOfItsThread) {
  const auto check_five_times = [] {
    for (int i = 0; i < 5; ++i) check_stop();
  };
  EXPECT_EQ(test::questions_of(check_five_times), 5);
  const auto own = [&] {
    check_five_times();
    EXPECT_EQ(stop_checks(), 5);
  };
  EXPECT_EQ(test::questions_of([&] { std::thread(own).join(); }), 0);
  StopTurns turns;  // loops ask now and then
  const auto loop = [&] {
    for (int i = 0; i < 10 * 4096; ++i) turns.next();
  };
  EXPECT_EQ(test::questions_of(loop), 10);
}

// On one thread, on the pool's, on a caller's own: no task begins after the one that asked for an end, but for those of
// other threads that are already begun; and tasks see the scope of whoever called.
TEST(Stop, EndsParallelCalls) {
  for (const bool own_pool : {false, true}) {
    if (own_pool) set_parallel_runner(test::run_backwards);
    for (const int threads : {1, 3}) {
      OwnScope own;
      std::atomic<int> begun{0}, after{0};
      const auto task = [&](std::int64_t, int) {
        if (own.source.stop_requested()) ++after;
        if (++begun == 10) own.source.request_stop();
      };
      EXPECT_THROW(parallel_for(1000, threads, task), Stopped);
      EXPECT_GE(begun, 10);
      EXPECT_LT(after, threads);
      const AdoptedStopScope unasked(nullptr);
      std::atomic<int> again{0};  // the pool is as it was
      parallel_for(100, threads, [&](std::int64_t, int) { ++again; });
      EXPECT_EQ(again, 100);
    }
    set_parallel_runner(nullptr);
  }
}

TEST(Stop, TasksAskForTheirCaller) {
  OwnScope own;
  std::atomic<int> arrived{0}, stopped{0};
  const auto task = [&](std::int64_t, int) {
    test::meet(arrived, 2);
    own.source.request_stop();
    try {
      check_stop();
    } catch (const Stopped&) {
      ++stopped;
      throw;
    }
  };
  EXPECT_THROW(parallel_for(2, 2, task), Stopped);
  EXPECT_EQ(stopped, 2);
}

// What a task of a caller's pool throws does not pass through that pool, which begins with the last task.
TEST(Stop, NoExceptionPassesThroughACallersPool) {
  const int before = test::backward_runs;
  int begun = 0;
  const auto failing = [&](std::int64_t index, int) {
    ++begun;
    if (index == 6) throw std::runtime_error("here");
  };
  set_parallel_runner(test::run_backwards);
  EXPECT_THROW(parallel_for(10, 2, failing), std::runtime_error);
  set_parallel_runner(nullptr);
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(test::backward_runs, before + 1);
}

}  // namespace
}  // namespace qkv
