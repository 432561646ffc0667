// The fused forward pass over one block of queries: vectors run over queries, logits and weights are tiles
// [key][query] that never leave the first-level cache, keys and values are read in place.
// Why so: docs/design/attention_forward.md.

#include "kernels/attention_forward.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "kernels/forward_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

using DoubleBlocks = ForwardBlocks<double, ExactProduct>;
using FloatBlocks = ForwardBlocks<float, ExactProduct>;

void forward(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  const AttentionTask& task = *block.task;
  if (task.accumulates_f64()) return DoubleBlocks(task, scratch).run(block.begin, block.end, next, keys);
  FloatBlocks(task, scratch).run(block.begin, block.end, next, keys);
}

void merge(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next) {
  if (task.accumulates_f64()) return DoubleBlocks::merge(task, queries, part, next);
  FloatBlocks::merge(task, queries, part, next);
}

ForwardPlan plan(const AttentionTask& task) {
  return task.accumulates_f64() ? DoubleBlocks::plan(task) : FloatBlocks::plan(task);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "kernels/attention_reduced.h"

namespace qkv {
namespace {

HWY_EXPORT(forward);
HWY_EXPORT(merge);
HWY_EXPORT(plan);

}  // namespace

ForwardPlan plan_forward(const AttentionTask& task) {
  if (task.precision == Precision::reduced) return plan_reduced(task);
  return HWY_DYNAMIC_DISPATCH(plan)(task);
}

void attend_forward(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  if (block.task->precision == Precision::reduced) return attend_reduced(block, next, scratch, keys);
  HWY_DYNAMIC_DISPATCH(forward)(block, next, scratch, keys);
}

// No product is in it: the same for either precision.
void merge_parts(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next) {
  HWY_DYNAMIC_DISPATCH(merge)(task, queries, part, next);
}

template <class T>
T log_sum_exp(T maximum, T sum, double unit) {
  if (sum == 0) return -std::numeric_limits<T>::infinity();
  return static_cast<T>(unit * static_cast<double>(maximum) + std::log(static_cast<double>(sum)));
}
template float log_sum_exp(float, float, double);
template double log_sum_exp(double, double, double);

}  // namespace qkv
#endif  // HWY_ONCE
