// Products of WeightStorage::reduced by tiles of AMX.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/matmul/matmul_panel.h"
#include "simd/flush_subnormals.h"

namespace qkv::inline ops {

inline constexpr std::int64_t kTiledSide = 16;       // rows of a tile, and its words of two neighbours along the depth
inline constexpr std::int64_t kTiledColumns = 32;    // of a panel
inline constexpr std::int64_t kTiledRows = 32;       // what rows of the left operand are filled up to
inline constexpr std::int64_t kTiledDepth = 32;      // what the depth is filled up to, by zeros
inline constexpr std::int64_t kTiledStretch = 1024;  // words whose products sums add up before they leave registers

// out [rows, columns] = sums [kTiledRows, kTiledColumns] (+ bias), rows of out a stride apart.
struct TiledSums {
  const float* sums;
  std::int64_t rows, columns;
  const float* bias;  // nullptr: none
  float* out;
  std::int64_t out_stride;
};
void store_sums(const TiledSums& sums);  // by vectors of the selected target

// Of what is multiplied next: lines of each step of the depth, to be fetched meanwhile.
struct NextLines {
  static constexpr std::int64_t kFloats = 16, kOfStep = kTiledSide * kTiledColumns / kFloats;

  const float* from;
  std::int64_t begin, end;  // of a step's
};

// Adds to sums 0 and 1, and with two tiles of rows to 2 and 3, the products of so many words.
template <class Tiles, int kRowTiles>
void add_tiles(const float* left, std::int64_t left_stride, const float* right, std::int64_t words, NextLines next) {
  for (std::int64_t word = 0; word < words; word += kTiledSide) {
    Tiles::template load<4>(left, kTiledSide);
    Tiles::template load<6>(right, kTiledColumns);
    Tiles::template multiply<0, 4, 6>();
    Tiles::template load<7>(right + kTiledSide, kTiledColumns);
    Tiles::template multiply<1, 4, 7>();
    if constexpr (kRowTiles == 2) {
      Tiles::template load<5>(left + kTiledSide * left_stride, kTiledSide);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template multiply<3, 5, 7>();
    }
    for (std::int64_t line = next.begin; line < next.end; ++line) {
      __builtin_prefetch(next.from + line * NextLines::kFloats, 0, 2);  // into the second cache
    }
    left += kTiledSide * kTiledSide;
    right += kTiledSide * kTiledColumns;
    next.from += kTiledSide * kTiledColumns;
  }
}

// Tiles: what multiplies; those of a CPU need a session of their own. Both operands hold words: left
// [row / 16][word / 16][row % 16][word % 16], the panel [depth / 2][kTiledColumns]. Two by two tiles of sums stay in
// registers; each block of rows fetches its share of the next panel, which may lie behind the last one: a prefetch
// never faults.
template <class Tiles>
void multiply_tiled_panel(const PanelProduct<float, BFloat16>& product) {
  const FlushSubnormals mode;
  const auto* panel = reinterpret_cast<const float*>(product.panel);
  const std::int64_t words = product.depth / 2;
  alignas(64) float padded[kTiledRows * kTiledColumns];
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(begin + kTiledStretch, words);
    const float* bias = end == words ? product.bias : nullptr;
    for (std::int64_t row = 0; row < product.rows; row += kTiledRows) {
      const std::int64_t rows = std::min(kTiledRows, product.rows - row);
      float* out = product.out + row * product.out_stride;
      const bool is_whole = rows == kTiledRows && product.columns == kTiledColumns;
      const auto each_sum = [&](float* sums, std::int64_t step, const auto& use) {
        use.template operator()<0>(sums, step);
        use.template operator()<1>(sums + kTiledSide, step);
        if (rows <= kTiledSide) return;
        use.template operator()<2>(sums + kTiledSide * step, step);
        use.template operator()<3>(sums + kTiledSide * step + kTiledSide, step);
      };
      const auto load = []<int kTile>(float* from, std::int64_t step) { Tiles::template load<kTile>(from, step); };
      const auto store = []<int kTile>(float* to, std::int64_t step) { Tiles::template store<kTile>(to, step); };
      if (!product.accumulate && begin == 0) {
        each_sum(padded, kTiledColumns, []<int kTile>(float*, std::int64_t) { Tiles::template clear<kTile>(); });
      } else if (is_whole) {
        each_sum(out, product.out_stride, load);
      } else {
        for (std::int64_t r = 0; r < rows; ++r) {
          std::copy_n(out + r * product.out_stride, product.columns, padded + r * kTiledColumns);
        }
        each_sum(padded, kTiledColumns, load);
      }
      const float* left = product.left + row * product.left_stride + begin * kTiledSide;
      const float* right = panel + begin * kTiledColumns;
      const NextLines next{.from = right + words * kTiledColumns,
                           .begin = NextLines::kOfStep * row / product.rows,
                           .end = NextLines::kOfStep * (row + rows) / product.rows};
      rows > kTiledSide ? add_tiles<Tiles, 2>(left, product.left_stride, right, end - begin, next)
                        : add_tiles<Tiles, 1>(left, product.left_stride, right, end - begin, next);
      if (is_whole && bias == nullptr) {
        each_sum(out, product.out_stride, store);
      } else {
        each_sum(padded, kTiledColumns, store);
        store_sums({padded, rows, product.columns, bias, out, product.out_stride});
      }
    }
    begin = end;
  } while (begin < words);
}

}  // namespace qkv::inline ops
