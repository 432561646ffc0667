// The kernel of a single query per sequence. Vectors run over head sizes and over keys instead of over queries, and
// all query heads of a group share each key that is read. The second of the two computations of attention(); it gives
// the same bits for any number of threads and any batch. Call ensure_target() once before.
#pragma once

#include "kernels/attention_task.h"
#include "kernels/scratch.h"

namespace qkv {

// Whether a query of a sequence is decoded: it is the only one, and its score is a dot product.
bool is_decoded(const AttentionTask& task);

// The partial result of `heads` query heads over some keys, in the accumulation's type: a row of `row_elements` per
// head, (maximum, sum, padding, out).
struct DecodePlan {
  std::int64_t row_elements = 0;
  std::size_t scratch_bytes = 0;
};

// `tasks`: the query heads of one key/value head of one sequence, `heads` of them.
DecodePlan plan_decode(const AttentionTask& task, std::int64_t heads);

// The partial result over keys chunk <= j < chunk + kChunkKeys. `scratch`, `part`: 64-byte aligned, as planned.
void decode_chunk(const AttentionTask* tasks, std::int64_t heads, std::int64_t chunk, const ScratchRoom& scratch,
                  std::byte* part);

// Adds the next partial result to the one in front of it.
void merge_decoded(const AttentionTask* tasks, std::int64_t heads, std::byte* part, const std::byte* next);

// Adds the sinks and writes what the tasks ask for: out, log-sum-exp, weights and logits (the last two by a second look
// at the keys).
void finish_decoded(const AttentionTask* tasks, std::int64_t heads, const ScratchRoom& scratch, std::byte* part);

}  // namespace qkv
