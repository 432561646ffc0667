// Decides threads and memory of a backward pass, and of a double one.
#include "attention/backward/backward_schedule.h"

#include <algorithm>

#include "attention/backward/backward_call.h"
#include "attention/call/view_checks.h"
#include "core/mathematics.h"
#include "qkv/threads.h"

namespace qkv::inline attending {

BackwardSchedule::BackwardSchedule(const AttentionProblem& problem, const AttentionOptions& options,
                                   const BiasGradients& bias, const ParameterSums& parameters, bool is_double,
                                   std::size_t wide_query, const OuterMemory& outer)
    : empty(problem.batch == 0 || problem.heads == 0 || problem.q_len == 0 || problem.k_len == 0),
      asked_threads(threads_of(options)) {
  std::size_t shared = wide_query, of_thread = 0;
  if (!empty) {
    BackwardTask first;
    first.forward = problem.task(0, 0);
    first.is_double = is_double;
    kernel = plan_backward(first);
    chunks = divide_up(problem.k_len, kChunkKeys);
    blocks = divide_up(problem.q_len, kernel.block_queries);
    tasks = problem.batch * problem.kv_heads * chunks;
    const std::size_t element = size_of(problem.accumulation);
    chunk_keys = std::min(kChunkKeys, divide_up(problem.k_len, kMostTileKeys) * kMostTileKeys);
    key_bytes = static_cast<std::size_t>(chunk_keys * kernel.key_columns) * element;
    value_bytes = static_cast<std::size_t>(chunk_keys * kernel.value_columns) * element;
    score_bytes = static_cast<std::size_t>(kernel.key_columns) * element;
    bias_bytes = bias.sum_bytes();
    if (problem.storage != problem.accumulation) {
      wide_bytes = static_cast<std::size_t>(chunk_keys * (problem.key_dim + problem.value_dim)) * element;
    }
    const auto ordered_sums =
        static_cast<std::size_t>(problem.batch * problem.heads * blocks + 1) * sizeof(std::int64_t);
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
  allowed_threads = problem.memory().threads_within(asked_threads, bytes);
  threads = std::min(busy(allowed_threads), useful_threads(problem, asked_threads, 5));
  workspace = problem.memory().most_with(bytes(threads));
}

namespace {

BackwardSchedule schedule_gradients(const AttentionProblem& problem, BackwardInputs inputs,
                                    const AttentionOptions& options, const AttentionSecondGradients& gradients,
                                    std::size_t outer) {
  inputs.moved = {.out = {unallocated(), problem.storage, inputs.out.shape()},
                  .log_sum_exp = {unallocated(), problem.storage, inputs.log_sum_exp.shape()},
                  .weight_sum = {unallocated(), problem.storage, inputs.log_sum_exp.shape()}};
  return schedule_scores(problem, inputs, options, first_gradients(gradients), {.meanwhile = outer});
}

}  // namespace

DoubleBackwardSchedule::DoubleBackwardSchedule(const AttentionProblem& problem, const BackwardInputs& inputs,
                                               const AttentionOptions& options, const AttentionSecondGradients& second)
    : outer(moved_bytes(problem, static_cast<bool>(second.grad_out))),
      tangents(problem, options, outer),
      gradients(schedule_gradients(problem, inputs, options, second, outer)) {}

AttentionGradients first_gradients(const AttentionSecondGradients& second) {
  AttentionGradients inner;
  inner.query = second.query, inner.key = second.key, inner.value = second.value;
  return inner;
}

}  // namespace qkv::inline attending
