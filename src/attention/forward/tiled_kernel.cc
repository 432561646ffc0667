// The exact forward pass over bf16 and f16 by the tiles of AMX: the blocks of forward_kernel.cc, but for what is
// multiplied. Why so: docs/design/attention_forward.md.

#include "attention/forward/tiled_kernel.h"

#include "attention/tile/tile_pieces.h"
#include "simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/tiled_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/tiled_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using TiledBlocks = ForwardBlocks<float, TiledProduct<HardwareTiles>>;

void tiled(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  const TileSession session;
  TiledBlocks(*block.task, scratch).run(block.begin, block.end, next, keys);
}

ForwardPlan tiled_plan(const AttentionTask& task) { return TiledBlocks::plan(task); }

#else

void tiled(const QueryBlock&, const QueryBlock&, const ScratchRoom&, const KeyPart&) {}

ForwardPlan tiled_plan(const AttentionTask&) { return {}; }

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::inline attending {
namespace {

HWY_EXPORT(tiled);
HWY_EXPORT(tiled_plan);

}  // namespace

bool is_tiled(const AttentionTask& task) {
  return size_of(task.key.type) == 2 && is_dot_product(task.common->score) && uses_amx() &&
         tile_words(task) <= kMostTileWords;
}

ForwardPlan plan_tiled(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(tiled_plan)(task); }

void attend_tiled(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  HWY_DYNAMIC_DISPATCH(tiled)(block, next, scratch, keys);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
