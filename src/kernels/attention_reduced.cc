// The fused forward pass with both products in bf16: the blocks of attention_forward.cc, but for what is multiplied.
// AVX-512 alone has the instructions, or tiles, and not on every CPU. Why so: docs/design/attention_forward.md.

#include "kernels/attention_reduced.h"

#include <algorithm>

#include "kernels/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_reduced.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "kernels/amx_product-inl.h"
#include "kernels/forward_blocks-inl.h"
#include "kernels/reduced_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

bool reduced_is_usable() { return __builtin_cpu_supports("avx512bf16"); }

using AmxBlocks = ForwardBlocks<float, AmxProduct>;
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

bool reduced_is_usable() { return false; }

void reduced(const QueryBlock&, const QueryBlock&, const ScratchRoom&, const KeyPart&) {}

ForwardPlan reduced_plan(const AttentionTask&) { return {}; }

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "qkv/precision.h"
#include "qkv/target.h"

namespace qkv {
namespace {

HWY_EXPORT(reduced);
HWY_EXPORT(reduced_is_usable);
HWY_EXPORT(reduced_plan);

}  // namespace

bool has_reduced_precision() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(reduced_is_usable)();
}

std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim) {
  if (!has_reduced_precision()) return "target " + selected_target() + " on this CPU does not multiply in bf16";
  if (storage == Dtype::f64) return "f64 is not reduced";
  if (score == Score::Kind::additive || score == Score::Kind::concat)
    return "this score does not multiply queries by keys";
  if (std::max(key_dim, value_dim) > kMostReducedDim) return "head and value sizes above 512 are not reduced";
  return {};
}

ForwardPlan plan_reduced(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(reduced_plan)(task); }

void attend_reduced(const QueryBlock& block, const QueryBlock& next, const ScratchRoom& scratch, const KeyPart& keys) {
  HWY_DYNAMIC_DISPATCH(reduced)(block, next, scratch, keys);
}

}  // namespace qkv
#endif  // HWY_ONCE
