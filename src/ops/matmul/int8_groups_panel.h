// The kernel of matmul for weights of 8 bits with scales for every group of the depth, of rows and of columns. Sums
// within a group are whole numbers, those of groups are f32 in their order: every target gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/matmul/int8_panel.h"

namespace qkv::inline ops {

// Steps of the depth that share a scale.
inline constexpr std::int64_t kGroupDepth = 32;

// Whole numbers of rows are from 0 to kMostOfRow, of weights from -kMostOfWeight to kMostOfWeight. Without an
// instruction for sums of four products x86 sums two in 16 bits: 2 * 255 * 64 is below 2^15.
inline constexpr int kMostOfRow = 255, kMostOfWeight = 64;

// Numbers that a group of a row has in `scales`: its unit, and what stands for 0.
inline constexpr std::int64_t kScalesOfGroup = 2;

// Steps of the depth that lie together in a panel, [groups * kGroupDepth / steps][columns][steps].
int int8_groups_step();

// A row of the left operand. A group from least <= 0 to most >= 0 is in units of (most - least) / 255, and round(-least
// / unit) stands for 0. NaN or infinity makes its group's unit NaN. As quantize_row() otherwise.
std::int64_t quantized_groups_bytes(std::int64_t depth);
void quantize_row_groups(const float* x, std::int64_t depth, std::byte* quantized, float* scales);

// out [rows, columns] (+)= sum over groups of unit[row][group] * column_scales[group][column] * sum (+ bias[column]).
// Of column_scales and column_sums a row is as wide as the panel.
void multiply_int8_groups_panel(const Int8Product& product);

}  // namespace qkv::inline ops
