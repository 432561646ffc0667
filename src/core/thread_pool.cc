// Hands jobs to threads: each has a word of memory, which says what it does and on which it sleeps.
#include "core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/float_environment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qkv::inline core {
namespace {

// Waking a sleeping thread takes about as long. The calls of a model follow each other faster than this.
constexpr std::chrono::microseconds kLooking{30};

thread_local bool in_task = false;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether the state left `present` within kLooking.
bool leaves(const std::atomic<int>& state, int present) {
  const auto end = std::chrono::steady_clock::now() + kLooking;
  do {
    for (int look = 0; look < 16; ++look) {
      if (state.load(std::memory_order_acquire) != present) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// `posted`: a job is there, which the caller may still take back. `awaited`: working, and the caller sleeps.
enum State : int { looking, asleep, posted, working, awaited };

}  // namespace

bool inside_task() { return in_task; }

void Job::work(int worker) {
  const FloatEnvironment environment;
  const AdoptedStopScope adopted(scope);
  in_task = true;
  try {
    for (std::int64_t index = next++; index < tasks; index = next++) {
      check_stop();
      task(context, index, worker);
    }
  } catch (...) {
    fail();
  }
  in_task = false;
}

void Job::run(std::int64_t index, int worker) {
  if (next == tasks) return;
  const FloatEnvironment environment;
  const AdoptedStopScope adopted(scope);
  try {
    check_stop();
    task(context, index, worker);
  } catch (...) {
    fail();
  }
}

void Job::fail() {
  next = tasks;
  const std::lock_guard lock(failure_mutex);
  if (!failure) failure = std::current_exception();
}

struct alignas(64) ThreadPool::Worker {
  std::atomic<int> state{looking};
  Job* job = nullptr;

  // Whether the thread slept.
  bool post(Job& of_caller) {
    job = &of_caller;
    if (state.exchange(posted, std::memory_order_acq_rel) != asleep) return false;
    state.notify_one();
    return true;
  }

  // Returns when the job is no longer used here.
  void release() {
    int present = posted;
    if (state.compare_exchange_strong(present, looking, std::memory_order_acq_rel)) return;
    if (present != working || leaves(state, working)) return;
    if (state.compare_exchange_strong(present, awaited, std::memory_order_acq_rel)) {
      state.wait(awaited, std::memory_order_acquire);
    }
  }
};

void ThreadPool::serve(Worker& worker, int number) {
  std::atomic<int>& state = worker.state;
  for (;;) {
    int present = looking;
    if (!leaves(state, looking) && state.compare_exchange_strong(present, asleep, std::memory_order_acq_rel)) {
      --awake_;
      state.wait(asleep, std::memory_order_acquire);
      ++awake_;
    }
    present = posted;
    if (!state.compare_exchange_strong(present, working, std::memory_order_acq_rel)) continue;  // taken back
    worker.job->work(number);
    if (state.exchange(looking, std::memory_order_acq_rel) == awaited) state.notify_one();
  }
}

// False where the system has no more threads: fewer do the work.
bool ThreadPool::add_worker() {
  auto worker = std::make_unique<Worker>();
  workers_.reserve(workers_.size() + 1);
  ++awake_;
  try {
    std::thread([this, own = worker.get(), number = threads() + 1] { serve(*own, number); }).detach();
  } catch (const std::system_error&) {
    --awake_;
    return false;
  }
  workers_.push_back(worker.release());
  return true;
}

bool ThreadPool::run(Job& job, int workers) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn.owns_lock()) return false;
  while (threads() < workers - 1 && add_worker()) {
  }
  const auto wanted = static_cast<std::size_t>(std::min(workers - 1, threads()));
  for (std::size_t i = 0; i < wanted; ++i) wakes_ += workers_[i]->post(job) ? 1 : 0;
  job.work(0);
  for (std::size_t i = 0; i < wanted; ++i) workers_[i]->release();
  return true;
}

namespace {

std::atomic<ThreadPool*> the_pool{nullptr};
std::mutex pool_mutex;

}  // namespace

ThreadPool& process_pool() {
  ThreadPool* existing = the_pool.load(std::memory_order_acquire);
  if (existing != nullptr) return *existing;
  const std::lock_guard lock(pool_mutex);
  if (the_pool.load() == nullptr) {
    static const int registered = pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
                                                 [] {
                                                   the_pool = nullptr;
                                                   in_task = false;
                                                   pool_mutex.unlock();
                                                 });
    (void)registered;
    the_pool = new ThreadPool;
  }
  return *the_pool.load();
}

int awake_threads() { return process_pool().awake(); }

}  // namespace qkv::inline core
