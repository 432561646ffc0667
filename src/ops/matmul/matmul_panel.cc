// Walks a panel in blocks of its depth and each block in tiles of rows. An element is always the sum of the same blocks
// in the same order, whichever tile it falls into.
#include "ops/matmul/matmul_panel.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <type_traits>

#include "core/mathematics.h"
#include "simd/flush_subnormals.h"

#define QKV_UNROLL_DEPTH QKV_UNROLL_TWICE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/matmul_panel.cc"
#include "simd/targets.h"
// Only after the list of targets.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/matmul/store_tile-inl.h"
#include "simd/bf16_chains-inl.h"
#include "simd/bf16_products-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

// A panel's block, 192 bytes wide with AVX-512, takes 96 KiB: it stays in L2 from one tile of rows to the next, and
// what is added to out costs under one hundredth of the product. Measured in docs/design/matmul.md.
inline constexpr std::int64_t kDepthBlock = kWideDepth;

// Steps of the depth between two rounds of prefetching.
inline constexpr std::int64_t kPrefetchSteps = kChainDepth;

// Elements of a cache line.
template <class S>
inline constexpr std::int64_t kLine = 64 / sizeof(S);

// How an element adds up its products: blocks of the depth, each one chain; so of words of two bf16, in pairs; or as
// bf16_chains-inl.h does it.
enum class Sums { blocks, pairs, bf16_chains };

#if HWY_TARGET == HWY_AVX3
template <Sums kSums>
using StepOf = std::conditional_t<kSums == Sums::pairs, MultiplyPairs, MultiplyAdd>;
#else
template <Sums kSums>
using StepOf = MultiplyAdd;
#endif

// What out holds, where sums go on with it; of fewer columns than the tile, zeros beside them.
template <int kRows, int kVectors>
HWY_INLINE void load_tile(const float* HWY_RESTRICT out, std::int64_t stride, std::int64_t columns,
                          Vec<float> (&sum)[kRows][kVectors]) {
  const Tag<float> d;
  HWY_ALIGN float row[kVectors * kLanes<float>] = {};
  for (int r = 0; r < kRows; ++r) {
    const float* from = out + r * stride;
    if (columns < kVectors * kLanes<float>) {
      for (std::int64_t c = 0; c < columns; ++c) row[c] = from[c];
      from = row;
    }
    for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::LoadU(d, from + c * kLanes<float>);
  }
}

// Of the block that follows, which may lie behind the last panel: a prefetch never faults.
template <class S>
HWY_INLINE void prefetch_lines(const S* next, std::int64_t lines) {
  for (std::int64_t i = 0; i < lines; ++i) hwy::Prefetch(next + i * kLine<S>);
}

// Where the tile will be stored: far from the next tile's output, and by then from the cache.
template <int kRows, int kVectors, class T>
HWY_INLINE void prefetch_tile(const T* out, std::int64_t stride) {
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) hwy::Prefetch(out + r * stride + c * kLanes<T>);
  }
}

// multiply_tile() of the only row of a product, which reads a block in fewer bits once, in order. Returns `count`.
template <int kVectors, class T, class R>
HWY_INLINE std::int64_t multiply_one_row(const T* HWY_RESTRICT left, std::int64_t step, const R* HWY_RESTRICT right,
                                         std::int64_t count, Vec<T> (&sum)[1][kVectors]) {
  constexpr std::int64_t kColumns = kTileColumns<T>, kWholeLines = 192;
  constexpr std::int64_t kSteps = std::max<std::int64_t>(1, kWholeLines / (kColumns * sizeof(R)));
  std::int64_t k = 0;
  for (; k + kSteps <= count; k += kSteps) {
    prefetch_ahead(right, kSteps * kColumns);
    multiply_tile<1, kVectors>(left, 0, step, right, kColumns, kSteps, sum);
    left += kSteps * step;
    right += kSteps * kColumns;
  }
  multiply_tile<1, kVectors>(left, 0, step, right, kColumns, count - k, sum);
  return count;
}

// Tiles of kRows from `row` on while they fit; returns the row behind them. `right`: the block. Each tile fetches its
// share of the next block, which so arrives at a steady rate: with few rows the product would otherwise wait for
// memory. One row reads a block once, in order: the processor fetches floats by itself.
template <Sums kSums, int kRows, int kVectors, class T, class S, class R>
HWY_INLINE std::int64_t multiply_rows(const PanelProduct<T, S>& product, const DepthBlock<T>& block, const R* right,
                                      std::int64_t row) {
  const std::int64_t columns = kTileColumns<T>;
  const S* next = product.panel + (block.begin + block.count) * columns;
  const S* const next_end = next + block.count * columns;
  next += block.count * row / product.rows * columns;
  const bool prefetches = kRows > 1 || product.rows > 1;
  const std::int64_t lines = divide_up(kPrefetchSteps * kRows * columns, product.rows * kLine<S>);  // of a round
  for (; row + kRows <= product.rows; row += kRows) {
    Vec<T> sum[kRows][kVectors];
    QKV_UNROLL for (int r = 0; r < kRows; ++r) {
      QKV_UNROLL for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(Tag<T>());
    }
    T* out = product.out + row * product.out_stride;
    prefetch_tile<kRows, kVectors>(out, product.out_stride);
    DepthBlock<T> stored = block;
    if constexpr (kSums == Sums::bf16_chains) {
      if (block.add) load_tile<kRows, kVectors>(out, product.out_stride, product.columns, sum);
      stored.add = false;
    }
    std::int64_t k = 0;
    if constexpr (kRows == 1 && kSums == Sums::blocks && sizeof(R) < sizeof(T)) {
      if (product.rows == 1) {
        k = multiply_one_row(product.left + block.begin * product.left_step, product.left_step, right, block.count,
                             sum);
      }
    }
    for (; k < block.count; k += kPrefetchSteps) {
      const T* left = product.left + row * product.left_stride + (block.begin + k) * product.left_step;
      const std::int64_t end = k + kPrefetchSteps < block.count ? k + kPrefetchSteps : block.count;
      if (prefetches && next < next_end) {
        prefetch_lines(next, lines);
        next += lines * kLine<S>;
      }
      const R* from = right + k * kTileColumns<T>;
      if constexpr (kSums == Sums::bf16_chains) {
        add_chains<kRows, kVectors>(left, product.left_stride, product.left_step, from, kTileColumns<T>, end - k, sum);
      } else {
        multiply_tile<kRows, kVectors, T, StepOf<kSums>>(left, product.left_stride, product.left_step, from,
                                                         kTileColumns<T>, end - k, sum);
      }
    }
    if (product.columns == kVectors * kLanes<T>) {
      store_tile<kRows, kVectors>(sum, stored, out, product.out_stride);
    } else {
      store_part_of_tile<kRows, kVectors>(sum, stored, out, product.out_stride, product.columns);
    }
  }
  return row;
}

template <Sums kSums, int kVectors, class T, class S, class R>
void multiply_block(const PanelProduct<T, S>& product, const DepthBlock<T>& block, const R* right) {
  std::int64_t row = multiply_rows<kSums, kTileRows, kVectors>(product, block, right, 0);
  row = multiply_rows<kSums, 4, kVectors>(product, block, right, row);
  row = multiply_rows<kSums, 2, kVectors>(product, block, right, row);
  multiply_rows<kSums, 1, kVectors>(product, block, right, row);
}

template <class S>
void widen(const S* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; i += kLanes<float>) {
    hn::Store(load_right(Tag<float>(), from + i), Tag<float>(), to + i);
  }
}

// kVectors: as many as hold the product's columns. At least one block, so that an empty depth gives zeros and the bias.
template <Sums kSums, int kVectors, class T, class S>
void multiply_blocks(const PanelProduct<T, S>& product) {
  std::int64_t begin = 0;
  do {
    const std::int64_t left = product.depth - begin;
    const std::int64_t count = left < kDepthBlock ? left : kDepthBlock;
    const DepthBlock<T> block{.begin = begin,
                              .count = count,
                              .add = product.accumulate || begin > 0,
                              .bias = count == left ? product.bias : nullptr};
    const S* right = product.panel + begin * kTileColumns<T>;
    begin += count;
    if constexpr (sizeof(S) < sizeof(T)) {
      if (product.wide != nullptr) {
        widen(right, count * kTileColumns<T>, product.wide);
        multiply_block<kSums, kVectors>(product, block, product.wide);
        continue;
      }
    }
    multiply_block<kSums, kVectors>(product, block, right);
  } while (begin < product.depth);
}

template <Sums kSums = Sums::blocks, class T, class S>
void multiply_any_columns(const PanelProduct<T, S>& product) {
  static_assert(kTileVectors == 3);
  if (product.columns > 2 * kLanes<T>) return multiply_blocks<kSums, 3>(product);
  if (product.columns > kLanes<T>) return multiply_blocks<kSums, 2>(product);
  multiply_blocks<kSums, 1>(product);
}

void multiply_panel_f32(const PanelProduct<float>& product) { multiply_any_columns(product); }
void multiply_panel_f64(const PanelProduct<double>& product) { multiply_any_columns(product); }
void multiply_panel_bf16(const PanelProduct<float, BFloat16>& product) { multiply_any_columns(product); }
void multiply_panel_reduced(const PanelProduct<float, BFloat16>& product) {
  const FlushSubnormals mode;
  multiply_any_columns<Sums::bf16_chains>(product);
}
void multiply_panel_pairs([[maybe_unused]] const PanelProduct<float, BFloat16>& product) {
#if HWY_TARGET == HWY_AVX3
  const FlushSubnormals mode;
  multiply_any_columns<Sums::pairs>(PanelProduct<float>{.left = product.left,
                                                        .left_stride = product.left_stride,
                                                        .left_step = product.left_step,
                                                        .rows = product.rows,
                                                        .panel = reinterpret_cast<const float*>(product.panel),
                                                        .depth = product.depth / 2,
                                                        .out = product.out,
                                                        .out_stride = product.out_stride,
                                                        .columns = product.columns,
                                                        .bias = product.bias,
                                                        .accumulate = product.accumulate});
#endif
}
int panel_columns_f32() { return kTileColumns<float>; }
int panel_columns_f64() { return kTileColumns<double>; }

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "simd/dispatch.h"

namespace qkv::inline ops {
namespace {

HWY_EXPORT(multiply_panel_f32);
HWY_EXPORT(multiply_panel_f64);
HWY_EXPORT(multiply_panel_bf16);
HWY_EXPORT(multiply_panel_reduced);
HWY_EXPORT(multiply_panel_pairs);
HWY_EXPORT(panel_columns_f32);
HWY_EXPORT(panel_columns_f64);

}  // namespace

template <>
MultiplyPanel<float> multiply_panel<float>() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(multiply_panel_f32);
}

template <>
MultiplyPanel<double> multiply_panel<double>() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(multiply_panel_f64);
}

template <>
MultiplyPanel<float, BFloat16> multiply_panel<float, BFloat16>() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(multiply_panel_bf16);
}

MultiplyPanel<float, BFloat16> multiply_reduced_panel() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(multiply_panel_reduced);
}

MultiplyPanel<float, BFloat16> multiply_pairs_panel() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(multiply_panel_pairs);
}

template <>
[[gnu::visibility("hidden")]] int panel_columns<float>() {  // which GCC exports otherwise
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(panel_columns_f32)();
}

template <>
[[gnu::visibility("hidden")]] int panel_columns<double>() {
  ensure_target();
  return HWY_DYNAMIC_DISPATCH(panel_columns_f64)();
}

}  // namespace qkv::inline ops
#endif  // HWY_ONCE
