// The kernels of matmul for weights in the blocks of a GGUF file, WeightStorage::q8 and q4.
#pragma once

#include <cstdint>

#include "qkv/dtype.h"
#include "qkv/matmul.h"

namespace qkv::inline ops {

// Rows of a block.
inline constexpr std::int64_t kBlockDepth = 32;

// Steps of the depth that are widened together, with AVX-512 24 KiB, half of the first cache; and rows whose sums wait
// meanwhile, 48 KiB.
inline constexpr std::int64_t kStretchDepth = 128, kMostBlockRows = 256;

// Rows of a panel from a whole number of blocks on, as PackedMatrix has them.
struct BlockPanel {
  const std::uint8_t* numbers;
  const Float16* scales;
};

inline BlockPanel first_panel(const PackedMatrix& b) {
  return {b.panels().data<std::uint8_t>(), b.column_scales().data<Float16>()};
}

// out [rows, columns] = left [rows, depth] panel [depth, panel_columns] (+ bias), as PanelProduct, of at most
// kWideDepth steps and kMostBlockRows rows: one chain, whose factors are widened on the way.
struct BlockRows {
  const float* left;
  std::int64_t left_stride;
  std::int64_t rows;
  BlockPanel panel;
  std::int64_t depth;
  float* out;
  std::int64_t out_stride;
  std::int64_t columns;
  const float* bias;  // nullptr: none
  bool accumulate;
  float* room;  // [kStretchDepth + kMostBlockRows, panel_columns], for more rows than a tile has
};

struct BlockKernel {
  void (*multiply)(const BlockRows& rows);
  std::int64_t tile_rows;
  std::int64_t number_bytes;  // of a block of one column
  std::int64_t scales;        // of a block of one column
  std::int64_t group;         // bytes of a column that lie together

  // Of a matrix of so many rows, whose first panel is `first`.
  BlockPanel at(const BlockPanel& first, std::int64_t rows, std::int64_t panel_columns, std::int64_t panel,
                std::int64_t row) const {
    const std::int64_t blocks = (panel * rows + row) / kBlockDepth * panel_columns;
    return {first.numbers + blocks * number_bytes, first.scales + blocks * scales};
  }
};

// Of the selected target; `storage`: q8 or q4.
BlockKernel block_kernel(WeightStorage storage);

}  // namespace qkv::inline ops
