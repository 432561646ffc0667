// The product that turns a tile [key][query] into sums over keys: values by weights in the forward pass, keys by logit
// gradients in the backward one. Included once per CPU target.

#if defined(QKV_ATTENTION_TILE_ACCUMULATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_TILE_ACCUMULATE_INL_H_
#undef QKV_ATTENTION_TILE_ACCUMULATE_INL_H_
#else
#define QKV_ATTENTION_TILE_ACCUMULATE_INL_H_
#endif

#include "simd/rows-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// A tile of sums from and to rows kStride vectors apart.
template <int kStride, int kRows, int kVectors, class T>
HWY_INLINE void load_sums(const T* from, Vec<T> (&sum)[kRows][kVectors]) {
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Load(Tag<T>(), from + (r * kStride + c) * kLanes<T>);
  }
}

template <int kStride, int kRows, int kVectors, class T>
HWY_INLINE void store_sums(const Vec<T> (&sum)[kRows][kVectors], T* to) {
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) hn::Store(sum[r][c], Tag<T>(), to + (r * kStride + c) * kLanes<T>);
  }
}

// accumulate_dims for rows with NaN or infinity: a key hidden from a query (its mark is -0) is left out.
template <int kRows, int kVectors, int kStride, class T>
HWY_NOINLINE void accumulate_visible(const KeyRows<T>& rows, const T* tile, const T* marks, T* to) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> bits;
  Vec<T> sum[kRows][kVectors];
  load_sums<kStride>(to, sum);
  const T* left = rows.data;
  for (std::int64_t key = 0; key < rows.count; ++key, left += rows.step) {
    for (int c = 0; c < kVectors; ++c) {
      const std::int64_t at = (key * kStride + c) * kLanes<T>;
      const auto mark = hn::BitCast(bits, hn::Load(d, marks + at));
      const auto hidden = hn::RebindMask(d, hn::Eq(mark, hn::BitCast(bits, hn::Set(d, T(-0.0)))));  // NaN is no mark
      const Vec<T> factor = hn::Load(d, tile + at);
      for (int r = 0; r < kRows; ++r) {
        sum[r][c] = hn::IfThenElse(hidden, sum[r][c], hn::MulAdd(hn::Set(d, left[r]), factor, sum[r][c]));
      }
    }
  }
  store_sums<kStride>(sum, to);
}

template <int kRows, int kVectors, int kStride, class T>
void accumulate_dims(const KeyRows<T>& rows, const T* tile, const T* marks, T* to) {
  if (HWY_UNLIKELY(marks != nullptr)) return accumulate_visible<kRows, kVectors, kStride>(rows, tile, marks, to);
  Vec<T> sum[kRows][kVectors];
  load_sums<kStride>(to, sum);
  multiply_tile<kRows, kVectors, T>(rows.data, 1, rows.step, tile, kStride * kLanes<T>, rows.count, sum);
  store_sums<kStride>(sum, to);
}

struct Nothing {
  void operator()() const {}
};

// to[dim][query] += sum over keys of rows[key][dim] * tile[key][query], in order of keys, for dim < dims. `marks`:
// nullptr, or a tile whose -0 entries name the pairs to leave out. Rows of tiles and of `to` lie kStride vectors apart,
// of which kVectors take part. meanwhile() is called for each kTileRows of the dims.
template <int kVectors, int kStride = kVectors, class T, class Meanwhile = Nothing>
void accumulate(KeyRows<T> rows, std::int64_t dims, const T* tile, const T* marks, T* to,
                const Meanwhile& meanwhile = {}) {
  constexpr int kColumns = kStride * kLanes<T>;
  std::int64_t left = dims;
  for (; left >= kTileRows; left -= kTileRows, rows.data += kTileRows, to += kTileRows * kColumns) {
    meanwhile();
    accumulate_dims<kTileRows, kVectors, kStride>(rows, tile, marks, to);
  }
  if constexpr (kTileRows > 4) {
    for (; left >= 4; left -= 4, rows.data += 4, to += 4 * kColumns) {
      accumulate_dims<4, kVectors, kStride>(rows, tile, marks, to);
    }
  }
  for (; left > 0; --left, ++rows.data, to += kColumns) accumulate_dims<1, kVectors, kStride>(rows, tile, marks, to);
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
