// ALiBi: minus a slope times the distance of query and key. Source: Press et al., "Train short, test long" (2021).
// Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_ALIBI_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_ALIBI_INL_H_
#undef QKV_ATTENTION_TILE_ALIBI_INL_H_
#else
#define QKV_ATTENTION_TILE_ALIBI_INL_H_
#endif

#include <cmath>

#include "attention/tile/logit_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, int kVectors>
struct Alibi {
  static bool is_on(const AttentionTask& task) { return task.alibi_slope != 0; }

  static void apply(const LogitTile<T, kVectors>& tile) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> index;
    using Index = hwy::MakeSigned<T>;
    const Vec<T> slope = hn::Set(d, static_cast<T>(-tile.task.alibi_slope));
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kVectors; ++c) {
        // Position of the first lane relative to the key; both lie within 2^31 of each other.
        const std::int64_t distance = tile.begin + tile.task.offset + c * kLanes<T> - (tile.key + r);
        const auto distances = hn::Abs(hn::Iota(index, static_cast<Index>(distance)));
        T* at = tile.at + (r * kVectors + c) * kLanes<T>;
        hn::Store(hn::MulAdd(hn::ConvertTo(d, distances), slope, hn::Load(d, at)), d, at);
      }
    }
  }

  static void apply(const LogitRow<T>& row) {
    for (std::int64_t j = row.first; j < row.last; ++j) {
      row.at[j] -= static_cast<T>(row.task.alibi_slope) * static_cast<T>(std::abs(row.task.offset - (row.chunk + j)));
    }
  }
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
