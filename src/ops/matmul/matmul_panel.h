// The kernel of matmul: some rows of the left operand times one panel of the packed right one.
#pragma once

#include <hwy/cache_control.h>

#include <cstdint>

#include "qkv/dtype.h"

namespace qkv::inline ops {

// out [rows, columns] = left [rows, depth] panel [depth, panel_columns] (+ bias [columns]); rows of left and out lie a
// stride apart, the elements of a row of left a step, the panel is contiguous, and columns is at most panel_columns,
// the width that the target asks for. T: type of the operands, S: the one that the panel is stored in.
template <class T, class S = T>
struct PanelProduct {
  const T* left;
  std::int64_t left_stride;
  std::int64_t left_step;
  std::int64_t rows;
  const S* panel;
  std::int64_t depth;
  T* out;
  std::int64_t out_stride;
  std::int64_t columns;
  const T* bias;    // nullptr: none
  bool accumulate;  // add to what out holds
  // Of a panel in fewer bits: room for kWideDepth rows of it, if there are so many rows that it pays to widen it once.
  float* wide = nullptr;
};

inline constexpr std::int64_t kWideDepth = 512;

// How far ahead of few rows their panels are fetched: what a processor fetches by itself ends with a page of memory,
// and widening leaves it too little room to look beyond.
inline constexpr std::int64_t kAheadBytes = 4096;

// `count` numbers, so many ahead of `from`, line by line of the cache. A prefetch never faults.
template <class S>
HWY_INLINE void prefetch_ahead(const S* from, std::int64_t count, std::int64_t ahead = kAheadBytes / sizeof(S)) {
  constexpr std::int64_t kCacheLine = 64 / sizeof(S);
  for (std::int64_t i = 0; i < count; i += kCacheLine) hwy::Prefetch(from + ahead + i);
}

template <class T, class S = T>
using MultiplyPanel = void (*)(const PanelProduct<T, S>&);

// The kernel of the selected target, of float, of double, or of float and BFloat16: fetched once per product.
template <class T, class S = T>
MultiplyPanel<T, S> multiply_panel();

// That of a left operand which holds bf16, too, and with the sums of WeightStorage::reduced.
MultiplyPanel<float, BFloat16> multiply_reduced_panel();

// Of words of two neighbours along an even depth, WeightStorage::reduced_pairs; where uses_bf16_pairs() alone.
MultiplyPanel<float, BFloat16> multiply_pairs_panel();

// Columns of its panels.
template <class T>
int panel_columns();

}  // namespace qkv::inline ops
