// The fused forward pass over one block of queries: vectors run over queries, logits and weights are tiles
// [key][query] that never leave the first-level cache, keys and values are read in place.
// Why so: docs/design/attention_forward.md.

#include "attention/forward/forward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/forward_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/depth_steps-inl.h"
// Only after it, what multiplies.
#include "attention/forward/forward_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
using Blocks = ForwardBlocks<T, ExactProduct>;

void forward(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  const AttentionTask& task = *block.task;
  task.visit_accumulation([&]<class T>(T) { Blocks<T>(task, scratch).run(block.begin, block.end, next, keys); });
}

void merge(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next) {
  task.visit_accumulation([&]<class T>(T) { Blocks<T>::merge(task, queries, part, next); });
}

ForwardPlan plan(const AttentionTask& task) {
  return task.visit_accumulation([&]<class T>(T) { return Blocks<T>::plan(task); });
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::inline attending {
namespace {

HWY_EXPORT(forward);
HWY_EXPORT(merge);
HWY_EXPORT(plan);

}  // namespace

ForwardPlan plan_forward(const AttentionTask& task) {
  if (task.product != BlockProduct::exact) return plan_bf16(task);
  return HWY_DYNAMIC_DISPATCH(plan)(task);
}

void attend_forward(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  if (block.task->product != BlockProduct::exact) return attend_bf16(block, next, scratch, keys);
  HWY_DYNAMIC_DISPATCH(forward)(block, next, scratch, keys);
}

// No product is in it: the same for either precision.
void merge_parts(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next) {
  HWY_DYNAMIC_DISPATCH(merge)(task, queries, part, next);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
