/// \file
/// The library's own thread pool behind one call, parallel_for. Which worker runs which task never changes a result.
#pragma once

#include <cstdint>
#include <type_traits>

#include "qkv/api.h"

namespace qkv {

inline constexpr int kMaxThreads = 1024;

/// Threads used when a call does not name a number: set_threads(), else the environment's QKV_THREADS, else the first
/// number of its OMP_NUM_THREADS, else the processors that the process may run on, or the whole ones that the quota of
/// its control group leaves, if these are fewer. std::invalid_argument if QKV_THREADS is no number from 1 to
/// kMaxThreads.
QKV_API int threads();

/// Which of these rules gives threads(), and its name: set_threads, QKV_THREADS, OMP_NUM_THREADS, affinity, cgroup
/// quota.
enum class ThreadsRule { set_threads, qkv_threads, omp_num_threads, affinity, quota };
QKV_API ThreadsRule threads_rule();
QKV_API const char* name_of(ThreadsRule rule);

/// Sets the number for the whole process; 0 returns to the default. std::invalid_argument if negative or above
/// kMaxThreads.
QKV_API void set_threads(int count);

/// Number of logical processors.
QKV_API int hardware_threads();

/// A caller's own pool: runs task(context, index, worker) for every index in [0, tasks), worker < workers, and returns
/// when all are done. nullptr returns to the built-in pool.
using ParallelRunner = void (*)(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int), void* context);
QKV_API void set_parallel_runner(ParallelRunner runner);

QKV_API void parallel_for_erased(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int),
                                 void* context);

/// Calls body(index, worker) once for every index in [0, tasks), on up to `workers` threads (0: threads()), the
/// caller's among them; worker is in [0, workers). A nested call runs on its caller's thread, and so does one that
/// finds the pool's threads busy with another call. If bodies throw, tasks not yet begun are dropped and one of the
/// exceptions is rethrown here. Safe in a child after fork(). The threads are never joined: a process may end while
/// they work.
template <class Body>
void parallel_for(std::int64_t tasks, int workers, Body&& body) {
  using Function = std::remove_reference_t<Body>;
  parallel_for_erased(
      tasks, workers,
      [](void* context, std::int64_t index, int worker) { (*static_cast<Function*>(context))(index, worker); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace qkv
