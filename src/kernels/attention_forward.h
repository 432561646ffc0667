// The forward kernel behind its dispatch. Call ensure_target() once before.
#pragma once

#include "kernels/attention_task.h"

namespace qkv {

// How many queries a block holds on the selected target, and the scratch that attend_forward needs for tasks with at
// most so many queries and keys.
ForwardPlan plan_forward(const AttentionTask& task);

// Queries begin <= i < end of one head.
struct QueryBlock {
  const AttentionTask* task = nullptr;
  std::int64_t begin = 0, end = 0;
};

// `next`: what this thread will probably do next, or no task; its rows are fetched meanwhile. `scratch`: 64-byte
// aligned; it holds keys and values from one call to the next, and its first Scratch::kFreshBytes were 0 before the
// first one.
void attend_forward(const QueryBlock& block, const QueryBlock& next, std::byte* scratch);

// unit * maximum + ln(sum), or -infinity for sum 0: the natural log-sum-exp of a row whose maximum is in units of
// `unit`.
template <class T>
T log_sum_exp(T maximum, T sum, double unit);
extern template float log_sum_exp(float, float, double);
extern template double log_sum_exp(double, double, double);

}  // namespace qkv
