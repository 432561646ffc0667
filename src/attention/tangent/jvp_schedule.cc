// Decides the threads and the memory of attention_jvp().
#include "attention/tangent/jvp_schedule.h"

#include <algorithm>

#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

JvpSchedule::JvpSchedule(const AttentionCall& call, std::size_t outer) {
  if (call.batch > 0 && call.heads > 0 && call.q_len > 0) {
    kernel = plan_jvp(call.task(0, 0));
    blocks = divide_up(call.q_len, kernel.block_queries);
    tasks = call.batch * call.heads * blocks;
  }
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    return outer + static_cast<std::size_t>(busy(count)) * (kernel.scratch_bytes + MemoryCount::kSmallBytes);
  };
  allowed_threads = call.memory().threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  workspace = call.memory().most_with(bytes(threads));
}

std::size_t moved_bytes(const AttentionCall& call, bool has_view) {
  std::int64_t queries = 0;
  for (std::int64_t b = 0; b < call.batch; ++b) queries += call.query_length(b);
  return static_cast<std::size_t>(queries * call.heads * (2 + (has_view ? 0 : call.value_dim))) * size_of(call.storage);
}

}  // namespace qkv::inline attending
