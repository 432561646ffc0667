// Decides threads and memory of a backward pass, and of a double one.
#include "attention/backward/backward_schedule.h"

#include <algorithm>

#include "attention/backward/backward_call.h"
#include "attention/call/view_checks.h"
#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

BackwardSchedule::BackwardSchedule(const AttentionCall& call, const BiasGradients& bias,
                                   const ParameterSums& parameters, bool is_double, std::size_t wide_query,
                                   const OuterMemory& outer)
    : empty(call.batch == 0 || call.heads == 0 || call.q_len == 0 || call.k_len == 0) {
  std::size_t shared = wide_query, of_thread = 0;
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
    const std::size_t kept = outer.meanwhile + shared + of_workers;
    return std::max(kept + std::max(workers * of_thread, parameters.written_bytes()), outer.otherwise);
  };
  allowed_threads = call.memory().threads_within(call.threads, bytes);
  threads = std::min(busy(allowed_threads), call.useful_threads(5));
  workspace = call.memory().most_with(bytes(threads));
}

namespace {

BackwardSchedule schedule_gradients(const AttentionCall& call, BackwardInputs inputs, const AttentionOptions& options,
                                    const AttentionSecondGradients& gradients, std::size_t outer) {
  inputs.moved = {.out = {unallocated(), call.storage, inputs.out.shape()},
                  .log_sum_exp = {unallocated(), call.storage, inputs.log_sum_exp.shape()},
                  .weight_sum = {unallocated(), call.storage, inputs.log_sum_exp.shape()}};
  return schedule_scores(call, inputs, options, first_gradients(gradients), {.meanwhile = outer});
}

}  // namespace

DoubleBackwardSchedule::DoubleBackwardSchedule(const AttentionCall& call, const BackwardInputs& inputs,
                                               const AttentionOptions& options, const AttentionSecondGradients& second)
    : outer(moved_bytes(call, static_cast<bool>(second.grad_out))),
      tangents(call, outer),
      gradients(schedule_gradients(call, inputs, options, second, outer)) {}

AttentionGradients first_gradients(const AttentionSecondGradients& second) {
  AttentionGradients inner;
  inner.query = second.query, inner.key = second.key, inner.value = second.value;
  return inner;
}

}  // namespace qkv::inline attending
