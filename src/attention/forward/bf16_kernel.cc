// The fused forward pass with products of bf16, exact ones and those of reduced precision: the blocks of
// forward_kernel.cc, but for what is multiplied. AVX-512 alone has the instructions, or tiles, and not on every CPU.
// Why so: docs/design/attention_forward.md.

#include <optional>

#include "attention/forward/forward_kernel.h"
#include "simd/amx_tiles.h"
#include "simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/forward/bf16_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/depth_steps-inl.h"
// Only after it, what multiplies.
#include "attention/forward/forward_blocks-inl.h"
#include "attention/tile/reduced_product-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "attention/tile/paired_keys-inl.h"
#include "attention/tile/reduced_pairs-inl.h"
#ifndef QKV_WITHOUT_TILES
#include "attention/tile/tiled_product-inl.h"
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Of targets with fused multiply-add.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON

// visitor.operator()<Blocks>() with the blocks that multiply as `product` says.
template <class Visitor>
decltype(auto) visit_blocks(BlockProduct product, Visitor&& visitor) {
  const auto visit = [&]<class Product>() -> decltype(auto) {
    return visitor.template operator()<ForwardBlocks<float, Product>>();
  };
  switch (product) {
#if HWY_TARGET == HWY_AVX3
    case BlockProduct::pairs:
      return visit.template operator()<PairedKeysProduct<MultiplyPairs>>();
    case BlockProduct::reduced_pairs:
      return visit.template operator()<ReducedPairsProduct>();
#ifndef QKV_WITHOUT_TILES
    case BlockProduct::tiles:
      return visit.template operator()<TiledProduct<HardwareTiles>>();
    case BlockProduct::reduced_tiles:
      return visit.template operator()<ReducedTiledProduct<HardwareTiles>>();
#endif
#endif
    default:
      return visit.template operator()<ReducedProduct>();
  }
}

void forward_bf16(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  const AttentionTask& task = *block.task;
#ifdef __x86_64__
  std::optional<TileSession> session;
  if (task.product == BlockProduct::tiles || task.product == BlockProduct::reduced_tiles) session.emplace();
#endif
  visit_blocks(task.product, [&]<class Blocks>() { Blocks(task, scratch).run(block.begin, block.end, next, keys); });
}

ForwardPlan plan_of_bf16(const AttentionTask& task) {
  return visit_blocks(task.product, [&]<class Blocks>() { return Blocks::plan(task); });
}

#else

void forward_bf16(const QueryBlock&, const QueryBlock&, const ScratchRoom&, const KeyPart&) {}

ForwardPlan plan_of_bf16(const AttentionTask&) { return {}; }

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace qkv::inline attending {
namespace {

HWY_EXPORT(forward_bf16);
HWY_EXPORT(plan_of_bf16);

}  // namespace

ForwardPlan plan_bf16(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(plan_of_bf16)(task); }

void attend_bf16(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  HWY_DYNAMIC_DISPATCH(forward_bf16)(block, next, scratch, keys);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
