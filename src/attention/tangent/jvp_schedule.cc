// Decides the threads and the memory of attention_jvp().
#include "attention/tangent/jvp_schedule.h"

#include <algorithm>

#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

JvpSchedule::JvpSchedule(const AttentionProblem& problem, const AttentionOptions& options, std::size_t outer)
    : asked_threads(threads_of(options)) {
  if (problem.batch > 0 && problem.heads > 0 && problem.q_len > 0) {
    kernel = plan_jvp(problem.task(0, 0));
    blocks = divide_up(problem.q_len, kernel.block_queries);
    tasks = problem.batch * problem.heads * blocks;
  }
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    return outer + static_cast<std::size_t>(busy(count)) * (kernel.scratch_bytes + MemoryCount::kSmallBytes);
  };
  allowed_threads = problem.memory().threads_within(asked_threads, bytes);
  threads = std::min(busy(allowed_threads), useful_threads(problem, asked_threads, 5));
  workspace = problem.memory().most_with(bytes(threads));
}

std::size_t moved_bytes(const AttentionProblem& problem, bool has_view) {
  std::int64_t queries = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) queries += problem.query_length(b);
  return static_cast<std::size_t>(queries * problem.heads * (2 + (has_view ? 0 : problem.value_dim))) *
         size_of(problem.storage);
}

}  // namespace qkv::inline attending
