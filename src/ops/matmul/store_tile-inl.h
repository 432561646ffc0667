// How a tile's sums go into the result of a product. Included once per CPU target.

// Per-target include guard, the convention of Highway.
#if defined(QKV_OPS_STORE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_OPS_STORE_TILE_INL_H_
#undef QKV_OPS_STORE_TILE_INL_H_
#else
#define QKV_OPS_STORE_TILE_INL_H_
#endif

#include <cstdint>

#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// A stretch of the depth, and what happens to its sums.
template <class T>
struct DepthBlock {
  std::int64_t begin;
  std::int64_t count;
  bool add;       // to what out holds
  const T* bias;  // with the last block, else nullptr
};

// out = (out +) sum (+ bias), in this order.
template <int kRows, int kVectors, class T>
HWY_INLINE void store_tile(const Vec<T> (&sum)[kRows][kVectors], const DepthBlock<T>& block, T* HWY_RESTRICT out,
                           std::int64_t stride) {
  const Tag<T> d;
  QKV_UNROLL for (int r = 0; r < kRows; ++r) {
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) {
      T* to = out + r * stride + c * kLanes<T>;
      Vec<T> value = sum[r][c];
      if (block.add) value = hn::Add(hn::LoadU(d, to), value);
      if (block.bias != nullptr) value = hn::Add(value, hn::LoadU(d, block.bias + c * kLanes<T>));
      hn::StoreU(value, d, to);
    }
  }
}

// The same where out has fewer columns than the tile.
template <int kRows, int kVectors, class T>
HWY_NOINLINE void store_part_of_tile(const Vec<T> (&sum)[kRows][kVectors], const DepthBlock<T>& block,
                                     T* HWY_RESTRICT out, std::int64_t stride, std::int64_t columns) {
  const Tag<T> d;
  HWY_ALIGN T row[kVectors * kLanes<T>];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) hn::Store(sum[r][c], d, row + c * kLanes<T>);
    for (std::int64_t c = 0; c < columns; ++c) {
      T value = row[c];
      if (block.add) value = out[r * stride + c] + value;
      if (block.bias != nullptr) value = value + block.bias[c];
      out[r * stride + c] = value;
    }
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
