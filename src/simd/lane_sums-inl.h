// Rows in vectors, and the one order in which sums over the elements of a row are taken on every CPU target: element i
// is added in lane i % kSumLanes, however many lanes a vector has, and the lanes are added by halves. Included once per
// CPU target.

#if defined(QKV_SIMD_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_LANE_SUMS_INL_H_
#undef QKV_SIMD_LANE_SUMS_INL_H_
#else
#define QKV_SIMD_LANE_SUMS_INL_H_
#endif

#include <cstddef>

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T>
inline constexpr int kSumLanes = 64 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kSumVectors = kSumLanes<T> / kLanes<T>;

// `size` rounded up to whole rows of such lanes.
template <class T>
constexpr std::int64_t whole_sum_lanes(std::int64_t size) {
  return (size + kSumLanes<T> - 1) / kSumLanes<T> * kSumLanes<T>;
}

// Whole vectors.
template <class T>
struct WholeLanes {
  HWY_INLINE Vec<T> load(const T* from) const { return hn::LoadU(Tag<T>(), from); }
  HWY_INLINE void store(Vec<T> x, T* to) const { hn::StoreU(x, Tag<T>(), to); }
  HWY_INLINE Vec<T> keep(Vec<T> x, Vec<T>) const { return x; }
};

// The end of a row: the lanes beyond it hold zeros and are not written.
template <class T>
struct SomeLanes {
  HWY_INLINE Vec<T> load(const T* from) const {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    return hn::MaskedLoad(mask(), Tag<T>(), from);
#else
    HWY_ALIGN T lanes[kLanes<T>] = {};
    for (std::int64_t i = 0; i < count; ++i) lanes[i] = from[i];
    return hn::Load(Tag<T>(), lanes);
#endif
  }
  HWY_INLINE void store(Vec<T> x, T* to) const {
    HWY_ALIGN T lanes[kLanes<T>];
    hn::Store(x, Tag<T>(), lanes);
    for (std::int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
  // x, and `other` beyond the end.
  HWY_INLINE Vec<T> keep(Vec<T> x, Vec<T> other) const { return hn::IfThenElse(mask(), x, other); }

  HWY_INLINE auto mask() const { return hn::FirstN(Tag<T>(), static_cast<std::size_t>(count)); }

  std::int64_t count;
};

// body(vector of the sum, first element, lanes) for the vectors of a row.
template <class T, class Body>
HWY_INLINE void for_each_vector(std::int64_t size, const Body& body) {
  std::int64_t i = 0;
  for (; i + kSumLanes<T> <= size; i += kSumLanes<T>) {
    QKV_UNROLL for (int v = 0; v < kSumVectors<T>; ++v) body(v, i + v * kLanes<T>, WholeLanes<T>());
  }
  if (HWY_LIKELY(i == size)) return;
  QKV_UNROLL for (int v = 0; v < kSumVectors<T> - 1; ++v) {
    if (i + kLanes<T> > size) return i < size ? body(v, i, SomeLanes<T>{size - i}) : void();
    body(v, i, WholeLanes<T>());
    i += kLanes<T>;
  }
  if (i < size) body(kSumVectors<T> - 1, i, SomeLanes<T>{size - i});
}

// Lanes of the upper half added to those of the lower one, until one is left.
template <class T, class D>
HWY_INLINE T sum_of_halves([[maybe_unused]] D d, hn::Vec<D> x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(x);
#else
  constexpr std::size_t kCount = hn::MaxLanes(D());
  if constexpr (kCount * sizeof(T) > 16) {
    const hn::Half<D> half;
    return sum_of_halves<T>(half, hn::Add(hn::UpperHalf(half, x), hn::LowerHalf(half, x)));
  } else if constexpr (kCount == 4) {
    x = hn::Add(x, hn::Shuffle1032(x));
    return hn::GetLane(hn::Add(x, hn::Shuffle2301(x)));
  } else {
    return hn::GetLane(hn::Add(x, hn::Shuffle01(x)));
  }
#endif
}

// kSumLanes lanes.
template <class T>
struct LaneSums {
  HWY_INLINE LaneSums() { QKV_UNROLL for (int v = 0; v < kSumVectors<T>; ++v) at[v] = hn::Zero(Tag<T>()); }

  HWY_INLINE void add(int vector, Vec<T> x) { at[vector] = hn::Add(at[vector], x); }
  HWY_INLINE void multiply_add(int vector, Vec<T> x, Vec<T> y) { at[vector] = hn::MulAdd(x, y, at[vector]); }

  // The vectors added by halves: what is left is one.
  HWY_INLINE Vec<T> folded() const {
    Vec<T> sum[kSumVectors<T>];
    QKV_UNROLL for (int v = 0; v < kSumVectors<T>; ++v) sum[v] = at[v];
    QKV_UNROLL for (int half = kSumVectors<T> / 2; half > 0; half /= 2) {
      QKV_UNROLL for (int v = 0; v < half; ++v) sum[v] = hn::Add(sum[v], sum[v + half]);
    }
    return sum[0];
  }
  HWY_INLINE T total() const { return sum_of_halves<T>(Tag<T>(), folded()); }

  Vec<T> at[kSumVectors<T>];
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
