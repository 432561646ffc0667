// The backward kernel, compiled once per CPU target.
#include "kernels/attention_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cc"
#include "kernels/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "kernels/backward_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, class S>
const T* backward_typed(const BackwardTask& task, std::int64_t begin, std::int64_t end, std::int64_t chunk,
                        const ChunkSums& sums, std::byte* scratch) {
  const std::int64_t vectors = (end - begin + kLanes<T> - 1) / kLanes<T>;
  if (vectors == 1) return BackwardBlock<T, S, 1>(task, begin, end, scratch).run(chunk, sums);
  if constexpr (dtype_of<S> == Dtype::f32) {  // elsewhere two vectors are not worth the code
    if (vectors == 2) return BackwardBlock<T, S, 2>(task, begin, end, scratch).run(chunk, sums);
  }
  return BackwardBlock<T, S, kTileVectors>(task, begin, end, scratch).run(chunk, sums);
}

const std::byte* backward(const BackwardTask& task, Dtype storage, std::int64_t begin, std::int64_t end,
                          std::int64_t chunk, const ChunkSums& sums, std::byte* scratch) {
  const void* gradient;
  if (storage == Dtype::f64) {
    gradient = backward_typed<double, double>(task, begin, end, chunk, sums, scratch);
  } else if (storage == Dtype::bf16) {
    gradient = backward_typed<float, BFloat16>(task, begin, end, chunk, sums, scratch);
  } else if (storage == Dtype::f16) {
    gradient = backward_typed<float, Float16>(task, begin, end, chunk, sums, scratch);
  } else {
    gradient = backward_typed<float, float>(task, begin, end, chunk, sums, scratch);
  }
  return static_cast<const std::byte*>(gradient);
}

template <class T>
BackwardPlan plan_typed(const BackwardTask& backward) {
  const AttentionTask& task = backward.forward;
  return {.block_queries = kTileColumns<T>,
          .score_dim = score_dim(task),
          .key_columns = whole_vectors<T>(score_dim(task)),
          .value_columns = whole_vectors<T>(task.value_dim),
          .scratch_bytes = static_cast<std::size_t>(BackwardScratch<T, kTileVectors>(backward).total()) * sizeof(T)};
}

BackwardPlan backward_plan(const BackwardTask& task, Dtype storage) {
  return storage == Dtype::f64 ? plan_typed<double>(task) : plan_typed<float>(task);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv {
namespace {

HWY_EXPORT(backward);
HWY_EXPORT(backward_plan);

}  // namespace

BackwardPlan plan_backward(const BackwardTask& task, Dtype storage) {
  return HWY_DYNAMIC_DISPATCH(backward_plan)(task, storage);
}

const std::byte* attend_backward(const BackwardTask& task, Dtype storage, std::int64_t begin, std::int64_t end,
                                 std::int64_t chunk, const ChunkSums& sums, std::byte* scratch) {
  return HWY_DYNAMIC_DISPATCH(backward)(task, storage, begin, end, chunk, sums, scratch);
}

}  // namespace qkv
#endif  // HWY_ONCE
