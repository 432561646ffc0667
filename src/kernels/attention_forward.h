// The forward kernel behind its dispatch. Call ensure_target() once before.
#pragma once

#include "kernels/attention_task.h"
#include "qkv/dtype.h"

namespace qkv {

// How many queries a block holds on the selected target, and the scratch that attend_forward needs.
ForwardPlan plan_forward(const AttentionTask& task, Dtype storage);

// Queries begin <= i < end of one head, end - begin <= block_queries.
struct QueryBlock {
  const AttentionTask* task = nullptr;
  std::int64_t begin = 0, end = 0;
};

// `next`: what this thread will probably do next, or no task; its rows are fetched meanwhile. `scratch`: 64-byte
// aligned.
void attend_forward(const QueryBlock& block, const QueryBlock& next, Dtype storage, std::byte* scratch);

// unit * maximum + ln(sum), or -infinity for sum 0: the natural log-sum-exp of a row whose maximum is in units of
// `unit`.
template <class T>
T log_sum_exp(T maximum, T sum, double unit);
extern template float log_sum_exp(float, float, double);
extern template double log_sum_exp(double, double, double);

}  // namespace qkv
