// The threads behind parallel_for: they look for a job for some microseconds before they sleep, and only those that a
// call wants are woken.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "core/stop.h"

namespace qkv::inline core {

// Whether this thread is inside a task of a job.
bool inside_task();

// One call of parallel_for: tasks are taken from a counter, so that uneven ones balance. In front of each it is asked
// whether to stop, by the scope of the caller.
struct Job {
  std::int64_t tasks = 0;
  void (*task)(void*, std::int64_t, int) = nullptr;
  void* context = nullptr;
  const StopScope* scope = stop_scope();
  std::atomic<std::int64_t> next{0};
  std::mutex failure_mutex{};
  std::exception_ptr failure{};

  // Takes tasks until there are none.
  void work(int worker);
  // One task of a caller's pool. Nothing once one has failed.
  void run(std::int64_t index, int worker);

 private:
  void fail();
};

// Its threads are never joined: a process may end while one of them is inside a task. So a pool is never destroyed.
class ThreadPool {
 public:
  // Works on the job beside at most `workers` - 1 threads until all tasks are done. A thread that has not begun by then
  // is not waited for. False, and nothing is done, while another call has the pool.
  bool run(Job& job, int workers);

  int threads() const { return static_cast<int>(workers_.size()); }
  // How often a sleeping thread was woken.
  std::int64_t wakes() const { return wakes_; }
  // Threads that do not sleep: working, or looking for a job, which they begin at once.
  int awake() const { return awake_; }

 private:
  struct Worker;
  bool add_worker();
  void serve(Worker& worker, int number);

  std::mutex turn_;
  std::vector<Worker*> workers_;
  std::atomic<std::int64_t> wakes_{0};
  std::atomic<int> awake_{0};
};

// The pool of this process; another one in a child of fork(), which has none of its parent's threads.
ThreadPool& process_pool();
// Of its threads.
int awake_threads();

}  // namespace qkv::inline core
