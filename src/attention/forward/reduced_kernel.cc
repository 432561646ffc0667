// The fused forward pass with both products in bf16: the blocks of forward_kernel.cc, but for what is multiplied.
// AVX-512 alone has the instructions, or tiles, and not on every CPU. Why so: docs/design/attention_forward.md.

#include "attention/forward/reduced_kernel.h"

#include <algorithm>

#include "simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/reduced_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/reduced_product-inl.h"
#include "attention/tile/tiled_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using AmxBlocks = ForwardBlocks<float, ReducedTiledProduct<HardwareTiles>>;
using ReducedBlocks = ForwardBlocks<float, ReducedProduct>;

void reduced(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  if (!uses_amx()) return ReducedBlocks(*block.task, scratch).run(block.begin, block.end, next, keys);
  const TileSession session;
  AmxBlocks(*block.task, scratch).run(block.begin, block.end, next, keys);
}

ForwardPlan reduced_plan(const AttentionTask& task) {
  return uses_amx() ? AmxBlocks::plan(task) : ReducedBlocks::plan(task);
}

#else

void reduced(const QueryBlock&, const QueryBlock&, const ScratchRoom&, const KeyPart&) {}

ForwardPlan reduced_plan(const AttentionTask&) { return {}; }

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::inline attending {
namespace {

HWY_EXPORT(reduced);
HWY_EXPORT(reduced_plan);

}  // namespace

ForwardPlan plan_reduced(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(reduced_plan)(task); }

void attend_reduced(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  HWY_DYNAMIC_DISPATCH(reduced)(block, next, scratch, keys);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
