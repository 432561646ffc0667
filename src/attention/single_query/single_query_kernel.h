// The kernel of a single query per sequence. Vectors run over head sizes and over keys instead of over queries, and
// all query heads of a group share each key that is read. The second of the two computations of attention(); it gives
// the same bits for any number of threads and any batch. Call ensure_target() once before.
#pragma once

#include "attention/tile/attention_task.h"
#include "simd/scratch.h"

namespace qkv::inline attending {

// The partial result of `heads` query heads over some keys, in the accumulation's type: a row of `row_elements` per
// head, (maximum, sum, padding, out).
struct SingleQueryPlan {
  std::int64_t row_elements = 0;
  std::size_t scratch_bytes = 0;
};

// `tasks`: the query heads of one key/value head of one sequence, `heads` of them.
SingleQueryPlan plan_single_query(const AttentionTask& task, std::int64_t heads);

// The partial result over keys chunk <= j < chunk + kChunkKeys. `scratch`, `part`: 64-byte aligned, as planned.
void attend_single_query(const AttentionTask* tasks, std::int64_t heads, std::int64_t chunk, const ScratchRoom& scratch,
                         std::byte* part);

// Adds the next partial result to the one in front of it.
void merge_single_queries(const AttentionTask* tasks, std::int64_t heads, std::byte* part, const std::byte* next);

// Adds the sinks and writes what the tasks ask for: out, log-sum-exp, weights and logits (the last two in a second pass
// over the keys).
void finish_single_queries(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch, std::byte* part);

}  // namespace qkv::inline attending
