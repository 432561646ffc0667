// Sums over the queries of a block, one in each lane, in one order on every CPU target with vectors: kSumQueries at a
// time, whose shares are then added one after the other. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_QUERY_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_QUERY_SUMS_INL_H_
#undef QKV_ATTENTION_TILE_QUERY_SUMS_INL_H_
#else
#define QKV_ATTENTION_TILE_QUERY_SUMS_INL_H_
#endif

#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// The smallest block of queries that a target has: three vectors of 128 bits.
template <class T>
inline constexpr int kSumQueries = HWY_TARGET == HWY_SCALAR ? 3 : 48 / static_cast<int>(sizeof(T));
static_assert(kTileColumns<float> % kSumQueries<float> == 0 && kTileColumns<double> % kSumQueries<double> == 0);

// visit(sum) for each kSumQueries of row [kVectors * kLanes<T>]: their three parts are added, then the lanes by halves.
template <int kVectors, class T, class Visit>
HWY_INLINE void for_each_query_sum(const T* row, const Visit& visit) {
  constexpr int kPart = kSumQueries<T> / 3, kParts = kVectors * kLanes<T> / kPart;
  const hn::CappedTag<T, kPart> d;
  QKV_UNROLL for (int part = 0; part < kParts; part += 3) {
    auto sum = hn::Load(d, row + part * kPart);
    QKV_UNROLL for (int next = part + 1; next < part + 3; ++next) {
      if (next < kParts) sum = hn::Add(sum, hn::Load(d, row + next * kPart));
    }
    visit(sum_of_halves<T>(d, sum));
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
