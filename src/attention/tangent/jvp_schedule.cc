// Decides the threads and the memory of attention_jvp().
#include "attention/tangent/jvp_schedule.h"

#include <algorithm>

#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

JvpSchedule::JvpSchedule(const AttentionCall& call, Arena& arena) {
  if (call.batch > 0 && call.heads > 0 && call.q_len > 0) {
    kernel = plan_jvp(call.task(0, 0));
    blocks = divide_up(call.q_len, kernel.block_queries);
    tasks = call.batch * call.heads * blocks;
  }
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    return static_cast<std::size_t>(busy(count)) * (kernel.scratch_bytes + MemoryCount::kSmallBytes);
  };
  allowed_threads = arena.threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  arena.borrow(bytes(threads));
}

}  // namespace qkv::inline attending
