// Tasks one after the other: the browser lends a page from disk one thread.
#include "qkv/threads.h"

#include "core/thread_pool.h"

namespace qkv {

int hardware_threads() { return 1; }
int threads() { return 1; }
ThreadsRule threads_rule() { return ThreadsRule::affinity; }
const char* name_of(ThreadsRule) { return "affinity"; }
void set_threads(int) {}
void set_parallel_runner(ParallelRunner) {}

void parallel_for_erased(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t i = 0; i < tasks; ++i) task(context, i, 0);
}

inline namespace core {
int awake_threads() { return 0; }
bool inside_task() { return false; }
}  // namespace core

}  // namespace qkv
