// Products of WeightStorage::reduced by tiles of AMX.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/matmul/matmul_panel.h"
#include "simd/flush_subnormals.h"

namespace qkv::inline ops {

inline constexpr std::int64_t kTiledSide = 16;     // rows of a tile, and its words of two neighbours along the depth
inline constexpr std::int64_t kTiledColumns = 32;  // of a panel
inline constexpr std::int64_t kTiledRows = 32;     // what rows of the left operand are filled up to
inline constexpr std::int64_t kTiledDepth = 32;    // what the depth is filled up to, by zeros

// Tiles: what multiplies; those of a CPU need a session of their own. Both operands hold words: left rows [depth / 2],
// the panel [depth / 2][kTiledColumns]. Two by two tiles of sums stay in registers, a stretch of the panel in the first
// cache while all rows pass by.
template <class Tiles>
void multiply_tiled_panel(const PanelProduct<float, BFloat16>& product) {
  constexpr std::int64_t kStretch = kWideDepth / 2;  // 32 KiB
  const FlushSubnormals mode;
  const auto* panel = reinterpret_cast<const float*>(product.panel);
  const std::int64_t words = product.depth / 2;
  alignas(64) float padded[kTiledRows * kTiledColumns];
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(begin + kStretch, words);
    const float* bias = end == words ? product.bias : nullptr;
    for (std::int64_t row = 0; row < product.rows; row += kTiledRows) {
      const std::int64_t rows = std::min(kTiledRows, product.rows - row);
      float* out = product.out + row * product.out_stride;
      const bool is_whole = rows == kTiledRows && product.columns == kTiledColumns;
      float* sums = is_whole ? out : padded;
      const std::int64_t step = is_whole ? product.out_stride : kTiledColumns;
      if (product.accumulate || begin > 0) {
        for (std::int64_t r = 0; !is_whole && r < rows; ++r) {
          std::copy_n(out + r * product.out_stride, product.columns, padded + r * kTiledColumns);
        }
        Tiles::template load<0>(sums, step);
        Tiles::template load<1>(sums + kTiledSide, step);
        Tiles::template load<2>(sums + kTiledSide * step, step);
        Tiles::template load<3>(sums + kTiledSide * step + kTiledSide, step);
      } else {
        Tiles::template clear<0>();
        Tiles::template clear<1>();
        Tiles::template clear<2>();
        Tiles::template clear<3>();
      }
      for (std::int64_t word = begin; word < end; word += kTiledSide) {
        const float *left = product.left + row * product.left_stride + word, *right = panel + word * kTiledColumns;
        Tiles::template load<4>(left, product.left_stride);
        Tiles::template load<6>(right, kTiledColumns);
        Tiles::template multiply<0, 4, 6>();
        Tiles::template load<7>(right + kTiledSide, kTiledColumns);
        Tiles::template multiply<1, 4, 7>();
        Tiles::template load<5>(left + kTiledSide * product.left_stride, product.left_stride);
        Tiles::template multiply<2, 5, 6>();
        Tiles::template multiply<3, 5, 7>();
      }
      Tiles::template store<0>(sums, step);
      Tiles::template store<1>(sums + kTiledSide, step);
      Tiles::template store<2>(sums + kTiledSide * step, step);
      Tiles::template store<3>(sums + kTiledSide * step + kTiledSide, step);
      if (is_whole && bias == nullptr) continue;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < product.columns; ++c) {
          const float sum = sums[r * step + c];
          out[r * product.out_stride + c] = bias == nullptr ? sum : sum + bias[c];
        }
      }
    }
    begin = end;
  } while (begin < words);
}

}  // namespace qkv::inline ops
