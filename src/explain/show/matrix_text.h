// Tensors and pictures as blocks of text, laid side by side.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/explain/explain.h"

namespace qkv::inline explaining {

struct TextLine {
  TextLine(const std::string& ascii) : text(ascii), columns(ascii.size()) {}
  TextLine(std::string any, std::size_t own_columns, bool own_colors = false)
      : text(std::move(any)), columns(own_columns), painted(own_colors) {}

  std::string text;
  std::size_t columns;   // that it takes
  bool painted = false;  // it has its colours
};

// Lines of text side by side with others: the first is a title.
struct TextBox {
  std::vector<TextLine> lines;
  std::size_t width = 0;
  Role role = Role::none;
};

// How all numbers of one tensor are written, so that they line up in columns.
struct NumberFormat {
  int decimals = 0;
  bool scientific = false;

  std::string operator()(double value) const;
};
NumberFormat format_for(const Quantity& quantity);

struct TextRoom {
  std::size_t width = 0;  // columns
  bool full = false;      // nothing is shortened, however long the lines
};

// "query [3, 3]" and one line per row: lines that do not fit are shortened with "...". A tensor of rank 3 gives one box
// per matrix.
std::vector<TextBox> boxes_of(const Quantity& quantity, const TextRoom& room);

// The caption and the pixels, dark to bright, two characters each.
TextBox box_of(const Picture& picture);

// As heat maps of a terminal.
enum class HeatStyle { letters, colors };  // half blocks in 256 colours

// The name and the scale of a matrix, the names of its columns downwards, and its rows; no wider than `room.width`, if
// that is 16 or more. A tensor of rank 3 gives one box per matrix.
std::vector<TextBox> heat_boxes_of(const Quantity& quantity, HeatStyle style, const TextRoom& room);

// The scale from least to most, in at most 39 columns; and a remark on other marks.
std::string heat_ramp(HeatStyle style);
std::string heat_remark(HeatStyle style);

}  // namespace qkv::inline explaining
