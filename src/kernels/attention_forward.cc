// The fused forward pass over one block of queries: vectors run over queries, logits and weights are tiles
// [key][query] that never leave the first-level cache, keys and values are read where they lie.
// Why so: docs/design/attention_forward.md.

#include "kernels/attention_forward.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "kernels/forward_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, class S>
void forward_typed(const QueryBlock& block, const QueryBlock& next, std::byte* scratch) {
  const std::int64_t vectors = (block.end - block.begin + kLanes<T> - 1) / kLanes<T>;
  if (vectors == 1) return ForwardBlock<T, S, 1>(block, next, scratch).run();
  if constexpr (dtype_of<S> == Dtype::f32) {  // elsewhere two vectors are not worth the code
    if (vectors == 2) return ForwardBlock<T, S, 2>(block, next, scratch).run();
  }
  ForwardBlock<T, S, kTileVectors>(block, next, scratch).run();
}

void forward(const QueryBlock& block, const QueryBlock& next, Dtype storage, std::byte* scratch) {
  if (storage == Dtype::f64) {
    forward_typed<double, double>(block, next, scratch);
  } else if (storage == Dtype::bf16) {
    forward_typed<float, BFloat16>(block, next, scratch);
  } else if (storage == Dtype::f16) {
    forward_typed<float, Float16>(block, next, scratch);
  } else {
    forward_typed<float, float>(block, next, scratch);
  }
}

ForwardPlan plan(const AttentionTask& task, Dtype storage) {
  if (storage == Dtype::f64) return {kTileColumns<double>, kTileRows, scratch_bytes<double, kTileVectors>(task)};
  return {kTileColumns<float>, kTileRows, scratch_bytes<float, kTileVectors>(task)};
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "kernels/attention_reduced.h"

namespace qkv {
namespace {

HWY_EXPORT(forward);
HWY_EXPORT(plan);

}  // namespace

ForwardPlan plan_forward(const AttentionTask& task, Dtype storage) { return HWY_DYNAMIC_DISPATCH(plan)(task, storage); }

void attend_forward(const QueryBlock& block, const QueryBlock& next, Dtype storage, std::byte* scratch) {
  if (block.task->precision == Precision::reduced) return attend_reduced(block, next, storage, scratch);
  HWY_DYNAMIC_DISPATCH(forward)(block, next, storage, scratch);
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
