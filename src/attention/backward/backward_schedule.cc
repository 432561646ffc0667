// Decides threads and memory of a backward pass, and of a double one.
#include "attention/backward/backward_schedule.h"

#include <algorithm>

#include "attention/backward/backward_call.h"
#include "attention/call/view_checks.h"
#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

BackwardSchedule::BackwardSchedule(const AttentionCall& call, const BiasGradients& bias,
                                   const ParameterSums& parameters, bool is_double, Arena& arena)
    : empty(call.batch == 0 || call.heads == 0 || call.q_len == 0 || call.k_len == 0) {
  std::size_t shared = 0, of_thread = 0;
  if (!empty) {
    BackwardTask first;
    first.forward = call.task(0, 0);
    first.is_double = is_double;
    kernel = plan_backward(first);
    chunks = divide_up(call.k_len, kChunkKeys);
    blocks = divide_up(call.q_len, kernel.block_queries);
    tasks = call.batch * call.kv_heads * chunks;
    const std::size_t element = size_of(call.accumulation);
    chunk_keys = std::min(kChunkKeys, divide_up(call.k_len, kMostTileKeys) * kMostTileKeys);
    key_bytes = static_cast<std::size_t>(chunk_keys * kernel.key_columns) * element;
    value_bytes = static_cast<std::size_t>(chunk_keys * kernel.value_columns) * element;
    score_bytes = static_cast<std::size_t>(kernel.key_columns) * element;
    bias_bytes = bias.sum_bytes();
    if (call.storage != call.accumulation) {
      wide_bytes = static_cast<std::size_t>(chunk_keys * (call.key_dim + call.value_dim)) * element;
    }
    const auto ordered_sums = static_cast<std::size_t>(call.batch * call.heads * blocks + 1) * sizeof(std::int64_t);
    shared += ordered_sums + bias.ordered_sum_bytes(blocks, chunks);
    of_thread = kernel.scratch_bytes + sum_bytes() + wide_bytes;
  }
  shared += parameters.shared_bytes(blocks * sums_of_block());
  const auto busy = [&](int count) { return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, count)); };
  const auto bytes = [&](int count) {
    const auto workers = static_cast<std::size_t>(busy(count));
    const std::size_t of_workers = workers * (parameters.thread_bytes() + MemoryCount::kSmallBytes);
    return shared + of_workers + std::max(workers * of_thread, parameters.written_bytes());
  };
  allowed_threads = arena.threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  arena.borrow(bytes(threads));
}

}  // namespace qkv::inline attending
