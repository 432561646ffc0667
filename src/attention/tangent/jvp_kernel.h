// The kernel of attention_jvp() behind its dispatch: one block of queries against all keys. Call ensure_target()
// before.
#pragma once

#include "attention/tile/attention_task.h"
#include "simd/scratch.h"

namespace qkv::inline attending {

// Rows of the tangents of queries, keys and values; without data: 0.
struct TaskTangents {
  Rows query, key, value;
};

// What the kernel gets beyond the forward task.
struct JvpTask {
  AttentionTask forward;
  TaskTangents tangents;
  Rows out;
  const std::byte* log_sum_exp = nullptr;
  std::int64_t log_sum_exp_step = 0;
  // Where the tangents go, and what each row's recomputed weights and its sink's sum to: 1, but for what the rounding
  // of log_sum_exp did to all of them, which is worth correcting.
  OutputRows out_tangent, log_sum_exp_tangent, weight_sum;
};

// Queries of a block, and bytes of scratch that one thread needs.
struct JvpPlan {
  std::int64_t block_queries = 0;
  std::size_t scratch_bytes = 0;
};

// Rows must be of the accumulation's type.
JvpPlan plan_jvp(const AttentionTask& task);

// The tangents of queries begin <= i < end. `scratch`: 64-byte aligned.
void attend_jvp(const JvpTask& task, std::int64_t begin, std::int64_t end, const ScratchRoom& scratch);

}  // namespace qkv::inline attending
