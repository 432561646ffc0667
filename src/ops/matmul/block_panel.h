// The kernels of matmul for weights in the blocks of a GGUF file, WeightStorage::q8 and q4.
#pragma once

#include <cstdint>

#include "qkv/dtype.h"
#include "qkv/matmul.h"

namespace qkv::inline ops {

// Rows of a block.
inline constexpr std::int64_t kBlockDepth = 32;

// Rows of a panel from a whole number of blocks on, as PackedMatrix has them.
struct BlockPanel {
  const std::uint8_t* numbers;
  const Float16* scales;
};

// out [columns] = left [depth] panel [depth, panel_columns] (+ bias), as PanelProduct of one row, of at most kWideDepth
// rows: one chain, whose factors are widened on the way.
struct BlockRow {
  const float* left;
  BlockPanel panel;
  std::int64_t depth;
  float* out;
  std::int64_t columns;
  const float* bias;  // nullptr: none
  bool accumulate;
};

struct BlockKernel {
  // to [depth, panel_columns] are the panel's numbers.
  void (*widen)(const BlockPanel& panel, std::int64_t depth, float* to);
  void (*multiply)(const BlockRow& row);
  std::int64_t number_bytes;  // of a block of one column
  std::int64_t scales;        // of a block of one column

  BlockPanel at(const PackedMatrix& b, std::int64_t panel, std::int64_t row) const {
    const std::int64_t blocks = (panel * b.rows() + row) / kBlockDepth * b.panel_columns();
    return {b.panels().data<std::uint8_t>() + blocks * number_bytes,
            b.column_scales().data<Float16>() + blocks * scales};
  }
};

// Of the selected target; `storage`: q8 or q4.
BlockKernel block_kernel(WeightStorage storage);

}  // namespace qkv::inline ops
