// How operands of products of WeightStorage::reduced and reduced_pairs lie on the selected target.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/mathematics.h"
#include "ops/matmul/matmul_panel.h"
#include "qkv/dtype.h"
#include "qkv/matmul.h"

namespace qkv::inline ops {

// Some rows of some columns of a right operand, and where the words of each two of them lie in a panel of `width`
// columns.
struct ReducedStrip {
  const float* from;
  std::int64_t row_step, column_step;
  std::int64_t rows, columns;
  BFloat16* to;
  std::int64_t width;
};

// Rows of `depth` elements, to be rounded, and zeros up to `filled`; the first one is at a multiple of the row unit.
struct ReducedRows {
  const float* from;
  std::int64_t row_step, rows;
  std::int64_t depth, filled;
  float* to;
  std::int64_t to_step;  // floats that hold a whole row, of which these may be a part
};

// Columns of some rows, which become rows of a left operand: elements begin <= k < begin + count of its depth, with
// zeros behind the last.
struct ReducedColumns {
  const float* from;
  std::int64_t row_step, columns;
  std::int64_t begin, count;  // a multiple of kTurnedRows, and at most so many
  std::int64_t filled;
  float* to;
};

inline constexpr std::int64_t kTurnedRows = 32;

struct ReducedForm {
  int columns;  // of a panel
  int group;    // 2: operands are words of two neighbours; 1: floats, or bf16 to be widened
  int side;     // rows of a left operand whose steps of the depth unit lie side by side
  // What a depth is filled up to by zeros; and rows of a left operand, the last ones being anything.
  std::int64_t depth_unit, row_unit;
  void (*round_rows)(const ReducedRows& rows);
  void (*round_columns)(const ReducedColumns& columns);
  MultiplyPanel<float, BFloat16> multiply;
  // Of group 2; a word whose second row is missing has 0 there.
  void (*pack_strip)(const ReducedStrip& strip);

  std::int64_t depth(std::int64_t depth) const { return divide_up(depth, depth_unit) * depth_unit; }
  std::int64_t words(std::int64_t depth) const { return this->depth(depth) / group; }  // floats that hold a row
  // Of an element of a multiple of the depth unit, from the row's first one.
  std::int64_t offset(std::int64_t element) const { return element / group * side; }
  std::int64_t rows(std::int64_t rows) const { return divide_up(rows, row_unit) * row_unit; }
};

ReducedForm reduced_form(WeightStorage storage);

inline bool is_reduced(WeightStorage storage) {
  return storage == WeightStorage::reduced || storage == WeightStorage::reduced_pairs;
}

// A number as a factor of these products.
inline BFloat16 reduced_factor(float x) { return BFloat16(std::abs(x) < 0x1p-126f ? 0.0f : x); }

}  // namespace qkv::inline ops
