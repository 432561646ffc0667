// The register tile that every product of the project is made of: rows by vectors of accumulators, one broadcast
// element of the left operand times a row of the right one. The left operand is read in place, with any two
// strides; the right one is packed, a multiple of the vector wide. Included once per CPU target.

// Per-target include guard, the convention of Highway.
#if defined(QKV_SIMD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_TILE_INL_H_
#undef QKV_SIMD_TILE_INL_H_
#else
#define QKV_SIMD_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "qkv/dtype.h"

#ifndef QKV_UNROLL
#ifdef __clang__
#define QKV_UNROLL _Pragma("clang loop unroll(full)")
#define QKV_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#define QKV_UNROLL_FOUR_TIMES _Pragma("clang loop unroll_count(4)")
#else
#define QKV_UNROLL _Pragma("GCC unroll 16")
#define QKV_UNROLL_TWICE _Pragma("GCC unroll 2")
#define QKV_UNROLL_FOUR_TIMES _Pragma("GCC unroll 4")
#endif
#endif

// How multiply_tile() takes the steps of the depth, for a file that says so before it includes this one: two at a time
// make long products 5 % faster, and the kernels of attention take a third longer to compile.
#ifndef QKV_UNROLL_DEPTH
#define QKV_UNROLL_DEPTH
#endif

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Elements of a vector; every target here has a fixed size.
template <class T>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<T>()));

// `size` rounded up to whole vectors.
template <class T>
constexpr std::int64_t whole_vectors(std::int64_t size) {
  return (size + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

// Accumulators must stay in registers beside the row of the right operand and one broadcast:
// 8 x 3 + 3 + 1 of 32 (AVX-512, NEON), 4 x 3 + 3 + 1 of 16 (AVX2, SSE4).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTileVectors = 3;

// Where a result depends on how many rows are looked at together, they are so many on every target.
inline constexpr int kStepRows = 4;
static_assert(kTileRows % kStepRows == 0);

// Columns of a full tile: the width of packed panels and of a block of queries.
template <class T>
inline constexpr int kTileColumns = kTileVectors * kLanes<T>;

// run.operator()<kVectors>(), of the smallest block that holds so many columns; in f64 two vectors are not worth the
// code.
template <class T, class Run>
decltype(auto) with_vectors(std::int64_t columns, const Run& run) {
  if (columns <= kLanes<T>) return run.template operator()<1>();
  if constexpr (sizeof(T) == 4) {
    if (columns <= 2 * kLanes<T>) return run.template operator()<2>();
  }
  return run.template operator()<kTileVectors>();
}

// A vector of the right operand, which may be kept in fewer bits than it is multiplied in.
template <class T>
HWY_INLINE Vec<T> load_right(Tag<T> d, const T* from) {
  return hn::Load(d, from);
}
HWY_INLINE Vec<float> load_right(Tag<float> d, const BFloat16* from) {
  const hn::Rebind<hwy::bfloat16_t, Tag<float>> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(from)));
}
HWY_INLINE Vec<float> load_right(Tag<float> d, const std::int8_t* from) {
  const hn::Rebind<std::int8_t, Tag<float>> bytes;
  return hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<Tag<float>>(), hn::LoadU(bytes, from)));
}

// One step of a product: a word of the left operand, broadcast, with a vector of words of the right one.
struct MultiplyAdd {
  template <class V>
  static HWY_INLINE V apply(V left, V right, V sum) {
    return hn::MulAdd(left, right, sum);
  }
};

// sum[r][c] += left[r][k] * right[k][c] for k = 0 .. count - 1, in this order, fused where the target can.
// left[r][k] lies at left + r * row_step + k * step, right[k] at right + k * right_step.
template <int kRows, int kVectors, class T, class Step = MultiplyAdd, class S>
HWY_INLINE void multiply_tile(const T* HWY_RESTRICT left, std::int64_t row_step, std::int64_t step,
                              const S* HWY_RESTRICT right, std::int64_t right_step, std::int64_t count,
                              Vec<T> (&sum)[kRows][kVectors]) {
  const Tag<T> d;
  // A copy that nobody else can see: Clang stores the accumulators at every step if the caller's may be read.
  Vec<T> own[kRows][kVectors];
  QKV_UNROLL for (int r = 0; r < kRows; ++r) { QKV_UNROLL for (int c = 0; c < kVectors; ++c) own[r][c] = sum[r][c]; }
  QKV_UNROLL_DEPTH for (std::int64_t k = 0; k < count; ++k) {
    Vec<T> row[kVectors];
    QKV_UNROLL for (int c = 0; c < kVectors; ++c) row[c] = load_right(d, right + c * kLanes<T>);
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec<T> element = hn::Set(d, left[r * row_step]);
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) own[r][c] = Step::apply(element, row[c], own[r][c]);
    }
    left += step;
    right += right_step;
  }
  QKV_UNROLL for (int r = 0; r < kRows; ++r) { QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = own[r][c]; }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
