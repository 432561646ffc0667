// When a scope's token is asked, on which threads, and what a stopped call throws.
#include "core/stop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "core/meeting.h"
#include "core/stop_turns.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

// A scope with a token of its own.
struct OwnScope {
  std::stop_source source{};
  std::stop_token token = source.get_token();
  StopScope scope{token};
};

TEST(Stop, ThrowsOnceAScopeAsksForIt) {
  EXPECT_NO_THROW(check_stop());
  {
    OwnScope own;
    EXPECT_NO_THROW(check_stop());
    own.source.request_stop();
    EXPECT_TRUE(own.scope.stop_requested());
    EXPECT_THROW(check_stop(), Stopped);
  }
  EXPECT_NO_THROW(check_stop());
}

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
    if (asking == 0) {
      EXPECT_THROW(check_stop(), Stopped);
    }
  }
}

// Neither an empty adopted scope nor another thread asks.
TEST(Stop, IsOfItsThreadAlone) {
  OwnScope own;
  own.source.request_stop();
  {
    const AdoptedStopScope unasked(nullptr);
    EXPECT_NO_THROW(check_stop());
  }
  EXPECT_THROW(check_stop(), Stopped);
  std::thread([] { EXPECT_NO_THROW(check_stop()); }).join();
}

TEST(Stop, CountsTheChecksOfItsThread) {
  const auto check_five_times = [] {
    for (int i = 0; i < 5; ++i) check_stop();
  };
  EXPECT_EQ(test::questions_of(check_five_times), 5);
  std::thread([&] {
    check_five_times();
    EXPECT_EQ(stop_checks(), 5);
  }).join();
  EXPECT_EQ(test::questions_of([&] { std::thread(check_five_times).join(); }), 0);
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
