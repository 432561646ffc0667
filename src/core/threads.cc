// parallel_for, and how many threads it takes.
#include "qkv/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "core/default_threads.h"
#include "core/float_environment.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/thread_pool.h"

namespace qkv {
namespace {

std::atomic<int> chosen_threads{0};
std::atomic<ParallelRunner> chosen_runner{nullptr};

DefaultThreads process_default() {
  static const DefaultThreads found = default_threads(process_surroundings());
  return found;
}

void run_alone(std::int64_t tasks, void (*task)(void*, std::int64_t, int), void* context) {
  const FloatEnvironment environment;
  for (std::int64_t index = 0; index < tasks; ++index) {
    check_stop();
    task(context, index, 0);
  }
}

}  // namespace

int hardware_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int threads() {
  const int count = chosen_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : process_default().count;
}

ThreadsRule threads_rule() {
  return chosen_threads.load(std::memory_order_relaxed) > 0 ? ThreadsRule::set_threads : process_default().rule;
}

const char* name_of(ThreadsRule rule) {
  switch (rule) {
    case ThreadsRule::set_threads:
      return "set_threads";
    case ThreadsRule::qkv_threads:
      return "QKV_THREADS";
    case ThreadsRule::omp_num_threads:
      return "OMP_NUM_THREADS";
    case ThreadsRule::affinity:
      return "affinity";
    case ThreadsRule::quota:
      break;
  }
  return "cgroup quota";
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
  if (workers <= 1 || inside_task()) return run_alone(tasks, task, context);
  Job job{.tasks = tasks, .task = task, .context = context};
  if (const ParallelRunner runner = chosen_runner.load()) {
    const auto run = [](void* of_job, std::int64_t index, int worker) {
      static_cast<Job*>(of_job)->run(index, worker);
    };
    runner(tasks, workers, run, &job);
  } else if (!process_pool().run(job, workers)) {
    return run_alone(tasks, task, context);
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace qkv
