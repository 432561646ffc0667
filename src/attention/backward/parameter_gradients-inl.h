// Sums of the logits' gradients by parameter: the numbers of relative tables, as they lie in the task, but Shaw's; then
// the slope of ALiBi. Included once per CPU target.

#if defined(QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#undef QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#else
#define QKV_ATTENTION_BACKWARD_PARAMETER_GRADIENTS_INL_H_
#endif

#include <algorithm>

#include "attention/tile/attention_task.h"
#include "attention/tile/softmax_state-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// `gradients`: a tile [kTileRows][query] of keys key, key + 1 ..., 0 where hidden, whose first query is `begin`. Lanes
// from `count` on have no query. Adds to sums [parameter_count(task)].
template <int kVectors, class T>
HWY_NOINLINE void add_parameter_gradients(const AttentionTask& task, std::int64_t begin, std::int64_t count,
                                          std::int64_t key, const T* gradients, T* sums) {
  constexpr int kColumns = kVectors * kLanes<T>;
  const Tag<T> d;
  const std::int64_t position = begin + task.offset;
  const auto used = [&](int r, int c) {
    const auto lanes =
        hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(count - c * kLanes<T>, 0, kLanes<T>)));
    return hn::IfThenElseZero(lanes, hn::Load(d, gradients + r * kColumns + c * kLanes<T>));
  };
  for (int t = 0; t < task.common->table_count; ++t) {
    const TableBias& table = task.tables[t];
    if (table.row_length > 0) {
      // relative_rows-inl.h
    } else if (table.coordinates == nullptr) {
      for (int r = 0; r < kTileRows; ++r) {
        for (int c = 0; c < kVectors; ++c) {
          T* to = sums + kTablePadding + table.line_index(position + c * kLanes<T> - (key + r), kLanes<T>);
          hn::StoreU(hn::Add(hn::LoadU(d, to), used(r, c)), d, to);
        }
      }
    } else {
      const auto* coordinates = reinterpret_cast<const hwy::MakeSigned<T>*>(table.coordinates);
      for (int r = 0; r < kTileRows; ++r) {
        T* to = sums + table.center - coordinates[key + r];
        for (std::int64_t i = 0; i < count; ++i) to[coordinates[position + i]] += gradients[r * kColumns + i];
      }
    }
    sums += table.numbers;
  }
  const hn::RebindToSigned<Tag<T>> index;
  Vec<T> slope = hn::Zero(d);
  for (int r = 0; r < kTileRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      const auto first = static_cast<hwy::MakeSigned<T>>(position + c * kLanes<T> - (key + r));
      const Vec<T> distance = hn::ConvertTo(d, hn::Abs(hn::Iota(index, first)));
      slope = hn::NegMulAdd(distance, used(r, c), slope);
    }
  }
  *sums += hn::GetLane(hn::SumOfLanes(d, slope));
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
