// Matrices as heat maps of a terminal.
#pragma once

#include <vector>

#include "explain/matrix_text.h"

namespace qkv::inline explaining {

enum class HeatStyle { letters, colors };  // half blocks in 256 colours

// The name and the scale of a matrix, the names of its columns downwards, and its rows; no wider than `room.width`, if
// that is 16 or more. A tensor of rank 3 gives one box per matrix.
std::vector<TextBox> heat_boxes_of(const Quantity& quantity, HeatStyle style, const TextRoom& room);

// From least to most, in 39 columns or fewer; and what else there is.
std::string heat_ramp(HeatStyle style);
std::string heat_remark(HeatStyle style);

}  // namespace qkv::inline explaining
