// The kernel of matmul for weights of 8 bits: rows are rounded to 8 bits too, and the sums are whole numbers, so that
// every target gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qkv::inline ops {

// Longest sums: 255 * 127 * 65,536 is below 2^31.
inline constexpr std::int64_t kMaxInt8Depth = 65536;

// What rows of the left operand are rounded to, as the kernel of this CPU wants them: whole numbers from -127 to 127,
// or these plus kByteZero, where AVX512-VNNI sums four products of bytes, which wants them without a sign.
enum class Int8Rows { floats, bytes, bytes_from_zero };
Int8Rows int8_rows();
inline constexpr int kByteZero = 128;

// Steps of the depth that lie together in a panel, [depth / group][columns][group].
inline int int8_group() { return int8_rows() == Int8Rows::floats ? 1 : 4; }

// A row of the left operand in units of `scale` = max|x| / 127: quantized_bytes(depth) bytes, aligned as floats. NaN or
// infinity in it makes the scale NaN.
std::int64_t quantized_bytes(std::int64_t depth);
void quantize_row(const float* x, std::int64_t depth, std::byte* quantized, float* scale);

// out [rows, columns] (+)= scales[row] * column_scales[column] * sum (+ bias[column]).
struct Int8Product {
  const std::byte* left;     // quantized rows,
  std::int64_t left_stride;  // this many bytes apart
  const float* scales;       // [rows]; of groups more
  std::int64_t rows;
  const std::int8_t* panel;
  const float* column_scales;       // [columns], for each group
  const std::int32_t* column_sums;  // the same: of the panel's numbers
  std::int64_t depth;
  std::int64_t groups;  // of the depth, each with its own scales: 1 here, more in int8_groups_panel.h
  float* out;
  std::int64_t out_stride;
  std::int64_t columns;
  const float* bias;  // nullptr: none
  bool accumulate;    // add to what out holds
};

void multiply_int8_panel(const Int8Product& product);

}  // namespace qkv::inline ops
