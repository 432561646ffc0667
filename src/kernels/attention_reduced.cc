// The fused forward pass with both products in pairs of bf16: the blocks of attention_forward.cc, but for what is
// multiplied. AVX-512 alone has the instructions, and not on every CPU. Why so: docs/design/attention_forward.md.

#include "kernels/attention_reduced.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_reduced.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include "kernels/forward_block-inl.h"
#include "kernels/reduced_product-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

bool reduced_is_usable() { return __builtin_cpu_supports("avx512bf16"); }

std::size_t bytes_of_pairs(const AttentionTask& task) { return ReducedProduct::memory_bytes(task); }

template <class S>
void reduced_typed(const QueryBlock& block, const QueryBlock& next, std::byte* scratch) {
  const ReducedProduct product(*block.task, scratch);
  std::byte* own = scratch + ReducedProduct::memory_bytes(*block.task);
  const std::int64_t vectors = (block.end - block.begin + kLanes<float> - 1) / kLanes<float>;
  if (vectors == 1) return ForwardBlock<float, S, 1, ReducedProduct>(block, next, own, product).run();
  if constexpr (dtype_of<S> == Dtype::f32) {  // elsewhere two vectors are not worth the code
    if (vectors == 2) return ForwardBlock<float, S, 2, ReducedProduct>(block, next, own, product).run();
  }
  ForwardBlock<float, S, kTileVectors, ReducedProduct>(block, next, own, product).run();
}

void reduced(const QueryBlock& block, const QueryBlock& next, Dtype storage, std::byte* scratch) {
  if (storage == Dtype::bf16) {
    reduced_typed<BFloat16>(block, next, scratch);
  } else if (storage == Dtype::f16) {
    reduced_typed<Float16>(block, next, scratch);
  } else {
    reduced_typed<float>(block, next, scratch);
  }
}

#else

bool reduced_is_usable() { return false; }

std::size_t bytes_of_pairs(const AttentionTask&) { return 0; }

void reduced(const QueryBlock&, const QueryBlock&, Dtype, std::byte*) {}

#endif

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "kernels/dispatch.h"
#include "qkv/precision.h"
#include "qkv/target.h"

namespace qkv {
namespace {

HWY_EXPORT(reduced);
HWY_EXPORT(reduced_is_usable);
HWY_EXPORT(bytes_of_pairs);

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

std::size_t reduced_bytes(const AttentionTask& task) { return HWY_DYNAMIC_DISPATCH(bytes_of_pairs)(task); }

void attend_reduced(const QueryBlock& block, const QueryBlock& next, Dtype storage, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(reduced)(block, next, storage, scratch);
}

}  // namespace qkv
#endif  // HWY_ONCE
