// The thread pool behind parallel_for.
#include "qkv/threads.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "core/float_environment.h"
#include "core/refuse.h"

namespace qkv {
namespace {

std::atomic<int> chosen_threads{0};
std::atomic<ParallelRunner> chosen_runner{nullptr};
thread_local bool inside_task = false;

int default_threads() {
  static const int count = [] {
    const char* text = std::getenv("QKV_THREADS");
    if (text == nullptr || *text == '\0') return hardware_threads();
    const std::string_view digits(text);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc{} || end != digits.end() || value < 1 || value > kMaxThreads) {
      throw std::invalid_argument(
          fmt::format("QKV_THREADS is \"{}\"; it must be a number from 1 to {}", digits, kMaxThreads));
    }
    return value;
  }();
  return count;
}

// One call of parallel_for: tasks are taken from a counter, so that uneven ones balance.
struct Job {
  std::int64_t tasks = 0;
  void (*task)(void*, std::int64_t, int) = nullptr;
  void* context = nullptr;
  std::atomic<std::int64_t> next{0};
  std::mutex failure_mutex{};
  std::exception_ptr failure{};

  void work(int worker) {
    const FloatEnvironment environment;
    inside_task = true;
    try {
      for (std::int64_t index = next++; index < tasks; index = next++) task(context, index, worker);
    } catch (...) {
      next = tasks;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
    inside_task = false;
  }
};

// Threads wait for a job, take part in it, and wait again. One job at a time; a second caller waits for the first.
class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Job& job, int workers) {
    const std::lock_guard turn(turn_mutex_);
    {
      const std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_.size()) < workers - 1) {
        threads_.emplace_back([this, worker = static_cast<int>(threads_.size()) + 1] { serve(worker); });
      }
      job_ = &job;
      wanted_ = workers - 1;
      running_ = workers - 1;
      ++generation_;
    }
    wake_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    job_ = nullptr;
  }

 private:
  void serve(int worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return ending_ || (generation_ != seen && worker <= wanted_ && job_ != nullptr); });
      if (ending_) return;
      seen = generation_;
      Job* job = job_;
      lock.unlock();
      job->work(worker);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  Job* job_ = nullptr;
  int wanted_ = 0;
  int running_ = 0;
  std::uint64_t generation_ = 0;
  bool ending_ = false;
};

// A child of fork() has none of the parent's threads: it forgets the pool (leaking it once) and makes its own.
std::atomic<Pool*> the_pool{nullptr};
std::mutex pool_mutex;

Pool& pool() {
  Pool* existing = the_pool.load(std::memory_order_acquire);
  if (existing != nullptr) return *existing;
  const std::lock_guard lock(pool_mutex);
  if (the_pool.load() == nullptr) {
    static const int registered = [] {
      std::atexit([] { delete the_pool.exchange(nullptr); });
      return pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
                            [] {
                              the_pool = nullptr;
                              inside_task = false;
                              pool_mutex.unlock();
                            });
    }();
    (void)registered;
    the_pool = new Pool;
  }
  return *the_pool.load();
}

}  // namespace

int hardware_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int threads() {
  const int count = chosen_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : default_threads();
}

void set_threads(int count) {
  if (count < 0 || count > kMaxThreads) {
    refuse("threads", "{} is not in 0 to {}", count, kMaxThreads);
  }
  chosen_threads = count;
}

void set_parallel_runner(ParallelRunner runner) { chosen_runner = runner; }

void parallel_for_erased(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int), void* context) {
  if (workers <= 0) workers = threads();
  workers = static_cast<int>(std::min<std::int64_t>({tasks, workers, kMaxThreads}));
  if (workers <= 1 || inside_task) {
    const FloatEnvironment environment;
    for (std::int64_t index = 0; index < tasks; ++index) task(context, index, 0);
    return;
  }
  Job job{.tasks = tasks, .task = task, .context = context};
  if (const ParallelRunner runner = chosen_runner.load()) {
    const auto run_one = [](void* of_job, std::int64_t index, int worker) {
      const FloatEnvironment environment;
      const Job& of = *static_cast<const Job*>(of_job);
      of.task(of.context, index, worker);
    };
    runner(tasks, workers, run_one, &job);
    return;
  }
  pool().run(job, workers);
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace qkv
