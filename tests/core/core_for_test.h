// What the tests of core share: threads that wait for one another, a pool of a caller's own, calls in a process of
// their own, and calls that must be refused.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "core/thread_pool.h"

namespace qkv::test {

inline int backward_runs = 0;  // that ended

// Goes on once so many have arrived.
inline void meet(std::atomic<int>& arrived, int count) {
  for (++arrived; arrived < count;) std::this_thread::yield();
}

// Of the pool's threads.
inline void wait_until_all_sleep() {
  while (process_pool().awake() > 0) std::this_thread::yield();
}

// A pool of a caller's own: from the last index to the first, on its thread.
inline void run_backwards(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks; index-- > 0;) task(context, index, workers - 1);
  ++backward_runs;
}

// What run() returns, or -1 if a signal ends it.
template <class Run>
int exit_code_of_child(const Run& run) {
  const pid_t child = fork();
  if (child == 0) _exit(run());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline void expect_each_refused(const std::vector<std::function<void()>>& calls) {
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_THROW(calls[i](), std::invalid_argument) << "call " << i;
}

}  // namespace qkv::test
