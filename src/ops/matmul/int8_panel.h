// The kernel of matmul for weights of 8 bits: rows are rounded to 8 bits too, and the sums are whole numbers, so that
// every target gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qkv::inline ops {

// Longest sums: 255 * 127 * 65,536 is below 2^31.
inline constexpr std::int64_t kMaxInt8Depth = 65536;

// Steps of the depth that lie together in a panel, [depth / group][columns][group]: 4 where the CPU has instructions
// for sums of four products of bytes (AVX512-VNNI), else 1.
int int8_group();

// A row of the left operand in units of `scale` = max|x| / 127, whole numbers from -127 to 127. NaN or infinity in it
// makes the scale NaN. The form is the kernel's own: quantized_bytes(depth) bytes, aligned as floats.
std::int64_t quantized_bytes(std::int64_t depth);
void quantize_row(const float* x, std::int64_t depth, std::byte* quantized, float* scale);

// Bytes of the left operand are whole numbers plus this: the instruction wants them without a sign.
inline constexpr int kByteZero = 128;

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
