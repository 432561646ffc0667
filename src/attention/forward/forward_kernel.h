// The forward kernel behind its dispatch. Call ensure_target() once before.
#pragma once

#include <limits>

#include "attention/tile/attention_task.h"
#include "simd/scratch.h"

namespace qkv::inline attending {

// How many queries a block holds on the selected target, and the scratch that attend_forward needs for tasks with at
// most so many queries and keys.
ForwardPlan plan_forward(const AttentionTask& task);

// Queries begin <= i < end of one head.
struct QueryBlock {
  const AttentionTask* task = nullptr;
  std::int64_t begin = 0, end = 0;
};

// Some of the keys of a block of at most ForwardPlan::block_queries queries, for which nothing is asked for but outputs
// and their log-sum-exp. Partial results lie in 64-byte aligned memory of ForwardPlan::part_bytes.
struct KeyPart {
  std::int64_t first = 0, last = std::numeric_limits<std::int64_t>::max();  // whole chunks
  const std::byte* from = nullptr;  // partial result of the preceding keys to continue from, or nullptr
  std::byte* to = nullptr;          // partial result of all keys so far; nullptr: the last keys, write outputs
};

// `next`: what this thread will probably do next, or no task; its rows are fetched meanwhile. `scratch`: of
// ForwardPlan, 64-byte aligned; it holds keys and values from one call to the next, and its first Scratch::kFreshBytes
// were 0 before the first one.
void attend_forward(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch,
                    const KeyPart& keys = {});

// Adds the partial result over the next keys to the one in front of it, of a block of so many queries.
void merge_parts(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next);

// Those of bf16_kernel.cc, to which these two come with tasks of any product but BlockProduct::exact.
ForwardPlan plan_bf16(const AttentionTask& task);
void attend_bf16(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys);

}  // namespace qkv::inline attending
