// Rows of elements as they lie in memory: conversion to the accumulation's type, a test for non-finite values, and
// transposition. Included once per CPU target.

#if defined(QKV_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_SIMD_ROWS_INL_H_
#undef QKV_SIMD_ROWS_INL_H_
#else
#define QKV_SIMD_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "qkv/dtype.h"
#include "simd/lane_sums-inl.h"
#include "simd/rows.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// Without instructions for f16, Highway truncates where it should round, and makes infinities finite.
inline constexpr bool kHasHalfInstructions = HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SCALAR;

// The lanes of `d` from elements of storage type S at any address.
template <class D, class S, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_as(D d, const S* from) {
  if constexpr (sizeof(S) == sizeof(T)) {
    return hn::LoadU(d, from);
  } else if constexpr (dtype_of<S> == Dtype::bf16) {
    const hn::Rebind<hwy::bfloat16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::bfloat16_t*>(from)));
  } else if constexpr (!kHasHalfInstructions) {
    HWY_ALIGN T wide[hn::MaxLanes(d)];
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) wide[i] = static_cast<T>(from[i]);
    return hn::Load(d, wide);
  } else {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
  }
}

// The inverse, to the nearest value of S, ties to even. (Highway's own conversion to bf16 truncates.)
template <class V, class S>
HWY_INLINE void store_as(V x, S* to) {
  if constexpr (sizeof(S) == sizeof(hn::TFromV<V>)) {
    hn::StoreU(x, Tag<S>(), to);
  } else if constexpr (dtype_of<S> == Dtype::bf16) {
    const hn::RebindToUnsigned<Tag<float>> bits;
    const hn::Rebind<std::uint16_t, Tag<float>> half;
    const auto word = hn::BitCast(bits, x);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(bits, 1));
    const auto rounded = hn::Add(hn::Add(word, hn::Set(bits, 0x7fff)), odd);
    const auto quiet = hn::Or(word, hn::Set(bits, 0x400000));
    const auto upper = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(x)), quiet, rounded);
#if HWY_TARGET == HWY_SCALAR
    const hn::Rebind<std::int32_t, Tag<float>> wide;
    const auto narrow = hn::DemoteTo(half, hn::BitCast(wide, hn::ShiftRight<16>(upper)));
#else
    const hn::Repartition<std::uint16_t, Tag<float>> halves;
    const auto both = hn::BitCast(halves, upper);
    const auto narrow = hn::LowerHalf(half, hn::ConcatOdd(halves, both, both));
#endif
    hn::StoreU(narrow, half, reinterpret_cast<std::uint16_t*>(to));
  } else if constexpr (!kHasHalfInstructions) {
    HWY_ALIGN float wide[kLanes<float>];
    hn::Store(x, Tag<float>(), wide);
    for (int i = 0; i < kLanes<float>; ++i) to[i] = S(wide[i]);
  } else {
    const hn::Rebind<hwy::float16_t, Tag<float>> half;
    hn::StoreU(hn::DemoteTo(half, x), half, reinterpret_cast<hwy::float16_t*>(to));
  }
}

template <class T, class S>
HWY_INLINE void convert_row(const S* HWY_RESTRICT from, std::int64_t count, T* HWY_RESTRICT to) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) hn::StoreU(load_as(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

template <class S>
HWY_INLINE void round_row(const float* HWY_RESTRICT from, std::int64_t count, S* HWY_RESTRICT to) {
  std::int64_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) store_as(hn::LoadU(Tag<float>(), from + i), to + i);
  for (; i < count; ++i) to[i] = S(from[i]);
}

// Whether rows of `count` elements, `step` apart, have no infinity and no NaN: only these make x * 0 differ from 0.
template <class T>
HWY_INLINE bool are_finite_rows(const T* from, std::int64_t step, std::int64_t rows, std::int64_t count) {
  const Tag<T> d;
  const Vec<T> zero = hn::Zero(d);
  constexpr int kSums = 4;  // one would wait for itself
  Vec<T> sums[kSums] = {zero, zero, zero, zero};
  bool finite = true;
  for (std::int64_t r = 0; r < rows; ++r, from += step) {
    std::int64_t i = 0;
    for (; i + kSums * kLanes<T> <= count; i += kSums * kLanes<T>) {
      QKV_UNROLL for (int n = 0; n < kSums; ++n) {
        sums[n] = hn::MulAdd(hn::LoadU(d, from + i + n * kLanes<T>), zero, sums[n]);
      }
    }
    for (; i + kLanes<T> <= count; i += kLanes<T>) sums[0] = hn::MulAdd(hn::LoadU(d, from + i), zero, sums[0]);
    for (; i < count; ++i) finite = finite && from[i] * T(0) == T(0);
  }
  const Vec<T> sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return finite && hn::AllTrue(d, hn::Eq(sum, zero));
}

template <class T>
HWY_INLINE bool is_finite_row(const T* from, std::int64_t count) {
  return are_finite_rows(from, /*step=*/0, /*rows=*/1, count);
}

// Rows of keys or values as they lie in memory, `count` of them.
template <class S>
struct KeyRows {
  const S* data;
  std::int64_t step;
  std::int64_t count;

  bool are_finite(std::int64_t size) const { return are_finite_rows(data, step, count, size); }
};

// The rows from `first` on that lie evenly spaced: all before `last`, or those of one page.
template <class S>
HWY_INLINE KeyRows<S> rows_from(const Rows& rows, std::int64_t first, std::int64_t last) {
  const S* data = reinterpret_cast<const S*>(rows.data);
  if (HWY_LIKELY(rows.pages == nullptr)) return {data + first * rows.step, rows.step, last - first};
  const std::int64_t page = first / rows.page_rows, row = first % rows.page_rows;
  return {data + rows.pages[page] * rows.page_step + row * rows.step, rows.step,
          std::min(last - first, rows.page_rows - row)};
}

// Asks for rows first <= i < last of `size` elements, which will be read soon. What does nothing else must be inline,
// too: GCC leaves out the call of a function that only prefetches.
template <class S>
HWY_INLINE void fetch_rows(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size) {
  constexpr std::int64_t kLine = 64 / sizeof(S);
  while (first < last) {
    const KeyRows<S> together = rows_from<S>(rows, first, last);
    for (std::int64_t i = 0; i < together.count; ++i) {
      for (std::int64_t e = 0; e < size; e += kLine) __builtin_prefetch(together.data + i * together.step + e);
    }
    first += together.count;
  }
}

// use(S()) for the type S of elements that are accumulated in T.
template <class T, class Use>
HWY_INLINE void with_type(Dtype type, const Use& use) {
  if constexpr (sizeof(T) == 4) {
    if (type == Dtype::bf16) return use(BFloat16());
    if (type == Dtype::f16) return use(Float16());
  }
  use(T());
}

// Rows first <= i < last in T, `to_step` apart.
template <class T>
HWY_NOINLINE void read_rows(const Rows& rows, std::int64_t first, std::int64_t last, std::int64_t size, T* to,
                            std::int64_t to_step) {
  with_type<T>(rows.type, [&]<class S>(S) {
    while (first < last) {
      const KeyRows<S> together = rows_from<S>(rows, first, last);
      if (together.step == size && to_step == size) {
        convert_row(together.data, together.count * size, to);
      } else {
        for (std::int64_t i = 0; i < together.count; ++i) {
          convert_row(together.data + i * together.step, size, to + i * to_step);
        }
      }
      first += together.count;
      to += together.count * to_step;
    }
  });
}

// kTileRows rows of keys or values of type T, from row `first` of `count`: where they lie if possible, else a copy in
// `buffer` with zeros beyond the last one. `step` tells how far apart they are.
template <class T>
HWY_INLINE const T* tile_rows(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t size, T* buffer,
                              std::int64_t& step) {
  const KeyRows<T> together = rows_from<T>(rows, first, count);
  if (HWY_LIKELY(together.count >= kTileRows)) {
    step = together.step;
    return together.data;
  }
  step = size;
  const std::int64_t last = std::min(first + kTileRows, count);
  read_rows(rows, first, last, size, buffer, size);
  std::memset(buffer + (last - first) * size, 0, sizeof(T) * (first + kTileRows - last) * size);
  return buffer;
}

// Lanes of a row of S in T.
template <class T, class S>
HWY_INLINE Vec<T> load_lanes_as(WholeLanes<T>, const S* from) {
  return load_as(Tag<T>(), from);
}
template <class T, class S>
HWY_INLINE Vec<T> load_lanes_as(SomeLanes<T> lanes, const S* from) {
  if constexpr (std::is_same_v<S, T>) {
    return lanes.load(from);
  } else {
    HWY_ALIGN T wide[kLanes<T>] = {};
    for (std::int64_t i = 0; i < lanes.count; ++i) wide[i] = static_cast<T>(from[i]);
    return hn::Load(Tag<T>(), wide);
  }
}

template <class T>
HWY_INLINE T dot(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::int64_t count) {
  LaneSums<T> sums;
  for_each_vector<T>(count, [&](int v, std::int64_t i, auto lanes)
                                HWY_ATTR { sums.multiply_add(v, lanes.load(a + i), lanes.load(b + i)); });
  return sums.total();
}

// Lanes of a block of 128 bits.
template <class T>
inline constexpr int kBlockLanes = HWY_MIN(kLanes<T>, 16 / static_cast<int>(sizeof(T)));

// Squares of blocks, row by row, each vector one row of several squares side by side, become their transposed.
template <class T, int kRows>
HWY_INLINE void transpose_blocks([[maybe_unused]] Vec<T> (&v)[kRows]) {
#if HWY_TARGET != HWY_SCALAR
  const Tag<T> d;
  if constexpr (kBlockLanes<T> == 4) {
    const hn::RepartitionToWide<Tag<T>> wide;
    const auto lower = [&](Vec<T> a, Vec<T> b) { return hn::BitCast(wide, hn::InterleaveLower(d, a, b)); };
    const auto upper = [&](Vec<T> a, Vec<T> b) { return hn::BitCast(wide, hn::InterleaveUpper(d, a, b)); };
    QKV_UNROLL for (int r = 0; r < kRows; r += 4) {
      const auto ab_low = lower(v[r], v[r + 1]), ab_high = upper(v[r], v[r + 1]);
      const auto ef_low = lower(v[r + 2], v[r + 3]), ef_high = upper(v[r + 2], v[r + 3]);
      v[r] = hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ef_low));
      v[r + 1] = hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ef_low));
      v[r + 2] = hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ef_high));
      v[r + 3] = hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ef_high));
    }
  } else if constexpr (kBlockLanes<T> == 2) {
    QKV_UNROLL for (int r = 0; r < kRows; r += 2) {
      const Vec<T> a = v[r], b = v[r + 1];
      v[r] = hn::InterleaveLower(d, a, b);
      v[r + 1] = hn::InterleaveUpper(d, a, b);
    }
  }
#endif
}

// A vector of blocks, that of row i at from + i * kBlockLanes<T> * row_step.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, [[maybe_unused]] std::int64_t row_step) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > kBlockLanes<T>) {
    const hn::Half<D> half;
    const std::int64_t rows = static_cast<std::int64_t>(hn::MaxLanes(half));
    return hn::Combine(d, load_blocks(half, from + rows * row_step, row_step), load_blocks(half, from, row_step));
  }
#endif
  return hn::LoadU(d, from);
}

// v[c][lane] = from[lane][c] for c < kBlockLanes<T>, rows `row_step` apart.
template <class T>
HWY_INLINE void load_columns(const T* from, std::int64_t row_step, Vec<T> (&v)[kBlockLanes<T>]) {
  QKV_UNROLL for (int r = 0; r < kBlockLanes<T>; ++r) v[r] = load_blocks(Tag<T>(), from + r * row_step, row_step);
  transpose_blocks<T>(v);
}

// A square of vectors, row by row, becomes its transposed.
template <class T>
HWY_INLINE void transpose_square([[maybe_unused]] Vec<T> (&v)[kLanes<T>]) {
  transpose_blocks<T>(v);  // and then the blocks themselves
#if HWY_TARGET != HWY_SCALAR
  [[maybe_unused]] const Tag<T> d;
  constexpr int kLanesOfBlock = kBlockLanes<T>;
  constexpr int kBlocks = kLanes<T> / kLanesOfBlock;
  if constexpr (kBlocks == 2) {
    QKV_UNROLL for (int j = 0; j < kLanesOfBlock; ++j) {
      const Vec<T> a = v[j], b = v[j + kLanesOfBlock];
      v[j] = hn::ConcatLowerLower(d, b, a);
      v[j + kLanesOfBlock] = hn::ConcatUpperUpper(d, b, a);
    }
  }
#if HWY_TARGET == HWY_AVX3
  if constexpr (kBlocks == 4) {
    const auto evens = [](Vec<float> a, Vec<float> b) { return Vec<float>{_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)}; };
    const auto odds = [](Vec<float> a, Vec<float> b) { return Vec<float>{_mm512_shuffle_f32x4(a.raw, b.raw, 0xdd)}; };
    const Tag<float> words;
    QKV_UNROLL for (int j = 0; j < kLanesOfBlock; ++j) {
      Vec<float> row[4];
      QKV_UNROLL for (int i = 0; i < 4; ++i) row[i] = hn::BitCast(words, v[j + i * kLanesOfBlock]);
      const Vec<float> even_low = evens(row[0], row[1]), even_high = evens(row[2], row[3]);
      const Vec<float> odd_low = odds(row[0], row[1]), odd_high = odds(row[2], row[3]);
      v[j] = hn::BitCast(d, evens(even_low, even_high));
      v[j + kLanesOfBlock] = hn::BitCast(d, evens(odd_low, odd_high));
      v[j + 2 * kLanesOfBlock] = hn::BitCast(d, odds(even_low, even_high));
      v[j + 3 * kLanesOfBlock] = hn::BitCast(d, odds(odd_low, odd_high));
    }
  }
#endif
#endif
}

// to[c][lane] = from[lane][c] for c < columns, whole vectors `to_step` apart; lanes from `rows` on become 0.
template <class T, class S>
HWY_INLINE void rows_to_lanes(const S* HWY_RESTRICT from, std::int64_t from_step, std::int64_t rows,
                              std::int64_t columns, T* HWY_RESTRICT to, std::int64_t to_step) {
  constexpr std::int64_t kSide = kLanes<T>;
  const Tag<T> d;
  if (columns < kSide) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < kSide; ++r) {
        to[c * to_step + r] = r < rows ? static_cast<T>(from[r * from_step + c]) : T(0);
      }
    }
    return;
  }
  for (std::int64_t c = 0; c < columns; c += kSide) {
    const std::int64_t column = HWY_MIN(c, columns - kSide);  // the last square may overlap the one before it
    Vec<T> v[kSide];
    QKV_UNROLL for (int r = 0; r < kSide; ++r) {
      v[r] = HWY_LIKELY(r < rows) ? load_as(d, from + r * from_step + column) : hn::Zero(d);
    }
    transpose_square<T>(v);
    QKV_UNROLL for (int r = 0; r < kSide; ++r) hn::Store(v[r], d, to + (column + r) * to_step);
  }
}

// The inverse, times a factor per lane: to[lane][c] = from[c][lane] * factor[lane], rounded to S, for the first `rows`
// lanes. Adding 0 turns -0 into 0.
template <class T, class S>
HWY_INLINE void lanes_to_rows(const T* HWY_RESTRICT from, std::int64_t from_step, std::int64_t rows,
                              std::int64_t columns, Vec<T> factor, S* HWY_RESTRICT to, std::int64_t to_step) {
  constexpr std::int64_t kSide = kLanes<T>;
  const Tag<T> d;
  const auto scaled = [&](std::int64_t c) {
    return hn::MulAdd(hn::Load(d, from + c * from_step), factor, hn::Zero(d));
  };
  if (columns < kSide) {
    HWY_ALIGN T lanes[kSide];
    for (std::int64_t c = 0; c < columns; ++c) {
      hn::Store(scaled(c), d, lanes);
      for (std::int64_t r = 0; r < rows; ++r) to[r * to_step + c] = S(lanes[r]);
    }
    return;
  }
  for (std::int64_t c = 0; c < columns; c += kSide) {
    const std::int64_t column = HWY_MIN(c, columns - kSide);
    Vec<T> v[kSide];
    QKV_UNROLL for (int r = 0; r < kSide; ++r) v[r] = scaled(column + r);
    transpose_square<T>(v);
    QKV_UNROLL for (int r = 0; r < kSide; ++r) {
      if (r < rows) store_as(v[r], to + r * to_step + column);
    }
  }
}

// to[c][r] = from[r][c] for r < rows, c < columns.
template <class T>
HWY_INLINE void transpose(const T* HWY_RESTRICT from, std::int64_t from_step, std::int64_t rows, std::int64_t columns,
                          T* HWY_RESTRICT to, std::int64_t to_step) {
  std::int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kSide = 16 / sizeof(T);  // squares of 4 x 4 floats or 2 x 2 doubles, in vectors of 128 bits
  const hn::FixedTag<T, kSide> d;
  for (; r + kSide <= rows; r += kSide) {
    const T* source = from + r * from_step;
    std::int64_t c = 0;
    for (; c + kSide <= columns; c += kSide, source += kSide) {
      T* target = to + c * to_step + r;
      const auto a = hn::LoadU(d, source);
      const auto b = hn::LoadU(d, source + from_step);
      if constexpr (kSide == 2) {
        hn::StoreU(hn::InterleaveLower(d, a, b), d, target);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, target + to_step);
      } else {
        const hn::RepartitionToWide<decltype(d)> wide;
        const auto e = hn::LoadU(d, source + 2 * from_step);
        const auto f = hn::LoadU(d, source + 3 * from_step);
        const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
        const auto ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
        const auto ef_low = hn::BitCast(wide, hn::InterleaveLower(d, e, f));
        const auto ef_high = hn::BitCast(wide, hn::InterleaveUpper(d, e, f));
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ef_low)), d, target);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ef_low)), d, target + to_step);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ef_high)), d, target + 2 * to_step);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ef_high)), d, target + 3 * to_step);
      }
    }
    for (; c < columns; ++c, ++source) {
      for (int i = 0; i < kSide; ++i) to[c * to_step + r + i] = source[i * from_step];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
  }
}

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
