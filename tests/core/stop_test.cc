// When a scope's token is asked, on which threads, and what a stopped call throws.
#include "core/stop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "qkv/error.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

TEST(Stop, ThrowsOnceAScopeAsksForIt) {
  std::stop_source source;
  const std::stop_token token = source.get_token();
  EXPECT_NO_THROW(check_stop());
  {
    const StopScope scope(token);
    EXPECT_NO_THROW(check_stop());
    source.request_stop();
    EXPECT_TRUE(scope.stop_requested());
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

TEST(Stop, NothingIsAskedInAnEmptyAdoptedScope) {
  std::stop_source source;
  source.request_stop();
  const std::stop_token token = source.get_token();
  const StopScope scope(token);
  {
    const AdoptedStopScope unasked(nullptr);
    EXPECT_NO_THROW(check_stop());
  }
  EXPECT_THROW(check_stop(), Stopped);
}

TEST(Stop, IsOfItsThreadAlone) {
  std::stop_source source;
  source.request_stop();
  const std::stop_token token = source.get_token();
  const StopScope scope(token);
  std::thread([] { EXPECT_NO_THROW(check_stop()); }).join();
}

TEST(Stop, CountsTheChecksOfItsThread) {
  const std::int64_t before = stop_checks();
  for (int i = 0; i < 5; ++i) check_stop();
  EXPECT_EQ(stop_checks() - before, 5);
  std::thread([] {
    check_stop();
    EXPECT_EQ(stop_checks(), 1);
  }).join();
  EXPECT_EQ(stop_checks() - before, 5);
}

TEST(Stop, LoopsAskNowAndThen) {
  const std::int64_t before = stop_checks();
  StopTurns turns;
  for (int i = 0; i < 10 * 4096; ++i) turns.next();
  EXPECT_EQ(stop_checks() - before, 10);
}

void in_reverse(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, 0);
}

// On one thread, on the pool's, on a caller's own: no task begins after the one that asked for an end, but for those of
// other threads that are already begun; and tasks see the scope of whoever called.
TEST(Stop, EndsParallelCalls) {
  constexpr int kThreads = 3;
  for (const bool own_pool : {false, true}) {
    if (own_pool) set_parallel_runner(in_reverse);
    for (const int threads : {1, kThreads}) {
      std::stop_source source;
      const std::stop_token token = source.get_token();
      const StopScope scope(token);
      std::atomic<int> begun{0}, after{0};
      EXPECT_THROW(parallel_for(1000, threads,
                                [&](std::int64_t, int) {
                                  if (source.stop_requested()) ++after;
                                  if (++begun == 10) source.request_stop();
                                }),
                   Stopped);
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
  std::stop_source source;
  const std::stop_token token = source.get_token();
  std::atomic<int> arrived{0}, stopped{0};
  const auto two_threads = [&] {
    parallel_for(2, 2, [&](std::int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      source.request_stop();
      try {
        check_stop();
      } catch (const Stopped&) {
        ++stopped;
        throw;
      }
    });
  };
  const StopScope scope(token);
  EXPECT_THROW(two_threads(), Stopped);
  EXPECT_EQ(stopped, 2);
}

// What a task of a caller's pool throws does not pass through that pool.
TEST(Stop, NoExceptionPassesThroughACallersPool) {
  static int finished;
  finished = 0;
  set_parallel_runner([](std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
    for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
    ++finished;
  });
  int begun = 0;
  EXPECT_THROW(parallel_for(10, 2,
                            [&](std::int64_t index, int) {
                              ++begun;
                              if (index == 3) throw std::runtime_error("here");
                            }),
               std::runtime_error);
  set_parallel_runner(nullptr);
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(finished, 1);
}

}  // namespace
}  // namespace qkv
