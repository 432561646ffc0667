// The backward kernel, compiled once per CPU target.
#include "attention/backward/backward_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/backward/backward_kernel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>

#include "simd/depth_steps-inl.h"
// Only after it, what multiplies.
#include "attention/backward/backward_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
const std::byte* backward_typed(const BackwardTask& task, std::int64_t begin, std::int64_t end, std::int64_t chunk,
                                const ChunkSums& sums, const ScratchRoom& scratch) {
  return with_vectors<T>(end - begin, [&]<int kVectors>() {
    const T* gradient = BackwardBlock<T, kVectors>(task, begin, end, scratch).run(chunk, sums);
    return reinterpret_cast<const std::byte*>(gradient);
  });
}

const std::byte* backward(const BackwardTask& task, std::int64_t begin, std::int64_t end, std::int64_t chunk,
                          const ChunkSums& sums, const ScratchRoom& scratch) {
  return task.forward.visit_accumulation(
      [&]<class T>(T) { return backward_typed<T>(task, begin, end, chunk, sums, scratch); });
}

void widen(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size, std::byte* to) {
  read_rows(rows, first, last, size, reinterpret_cast<float*>(to), size);
}

template <class T, class S>
void write_typed(const RowsToWrite& rows, T scale) {
  const Tag<T> d;
  T* from = reinterpret_cast<T*>(rows.from);
  S* to = reinterpret_cast<S*>(rows.to);
  for (std::int64_t i = 0; i < rows.count; ++i, from += rows.from_step, to += rows.to_step) {
    std::int64_t e = 0;
    for (; e + kLanes<T> <= rows.size; e += kLanes<T>) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + e), hn::Set(d, scale)), d, from + e);
    }
    for (; e < rows.size; ++e) from[e] *= scale;
    if constexpr (sizeof(S) == sizeof(T)) {
      std::memcpy(to, from, sizeof(T) * rows.size);
    } else {
      round_row(from, rows.size, to);
    }
  }
}

void write_rows(const RowsToWrite& rows, Dtype type, double scale) {
  if (type == Dtype::f64) return write_typed<double, double>(rows, scale);
  const auto narrow = static_cast<float>(scale);
  if (type == Dtype::bf16) return write_typed<float, BFloat16>(rows, narrow);
  if (type == Dtype::f16) return write_typed<float, Float16>(rows, narrow);
  write_typed<float, float>(rows, narrow);
}

template <class T>
BackwardPlan plan_typed(const BackwardTask& backward) {
  const AttentionTask& task = backward.forward;
  static_assert(kOrderedQueries % kTileColumns<T> == 0);
  return {.block_queries = kTileColumns<T>,
          .sum_queries = kSumQueries<T>,
          .score_dim = score_dim(task),
          .key_columns = whole_vectors<T>(score_dim(task)),
          .value_columns = whole_vectors<T>(task.common->value_dim),
          .scratch_bytes = static_cast<std::size_t>(BackwardScratch<T, kTileVectors>(backward).total()) * sizeof(T)};
}

BackwardPlan backward_plan(const BackwardTask& task) {
  return task.forward.visit_accumulation([&]<class T>(T) { return plan_typed<T>(task); });
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::inline attending {
namespace {

HWY_EXPORT(backward);
HWY_EXPORT(backward_plan);
HWY_EXPORT(widen);
HWY_EXPORT(write_rows);

}  // namespace

BackwardPlan plan_backward(const BackwardTask& task) { return HWY_DYNAMIC_DISPATCH(backward_plan)(task); }

void widen_rows(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size, std::byte* to) {
  HWY_DYNAMIC_DISPATCH(widen)(rows, first, last, size, to);
}

void write_scaled(const RowsToWrite& rows, Dtype type, double scale) {
  HWY_DYNAMIC_DISPATCH(write_rows)(rows, type, scale);
}

const std::byte* attend_backward(const BackwardTask& task, std::int64_t begin, std::int64_t end, std::int64_t chunk,
                                 const ChunkSums& sums, const ScratchRoom& scratch) {
  return HWY_DYNAMIC_DISPATCH(backward)(task, begin, end, chunk, sums, scratch);
}

}  // namespace qkv::inline attending
#endif  // HWY_ONCE
