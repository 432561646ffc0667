// The fused forward pass over bf16 whose queries are multiplied by keys in pairs: the blocks of forward_kernel.cc, but
// for that product. AVX-512 alone has the instruction, and not on every CPU. Why so: docs/design/attention_forward.md.

#include "attention/forward/paired_kernel.h"

#include "simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/paired_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/paired_keys-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using PairedBlocks = ForwardBlocks<float, PairedKeysProduct<MultiplyPairs>>;

void paired(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  PairedBlocks(*block.task, scratch).run(block.begin, block.end, next, keys);
}

ForwardPlan paired_plan(const AttentionTask& task) { return PairedBlocks::plan(task); }

#else

void paired(const QueryBlock&, const QueryBlock&, const ScratchRoom&, const KeyPart&) {}

ForwardPlan paired_plan(const AttentionTask&) { return {}; }

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::inline attending {
namespace {

HWY_EXPORT(paired);
HWY_EXPORT(paired_plan);

}  // namespace

bool is_paired(const AttentionTask& task) {
  return task.key.type == Dtype::bf16 && is_dot_product(task.common->score) && uses_bf16_pairs();
}

ForwardPlan plan_paired(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(paired_plan)(task); }

void attend_paired(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  HWY_DYNAMIC_DISPATCH(paired)(block, next, scratch, keys);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
