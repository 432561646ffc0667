// Tensors and pictures as blocks of text, laid side by side.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "qkv/explain/explain.h"

namespace qkv::inline explaining {

// Lines of text of one width; `title_lines` of them are above the numbers.
struct TextBox {
  std::vector<std::string> lines;
  std::size_t width = 0;
  Role role = Role::none;
};

struct TextRoom {
  std::size_t width = 0;                  // columns
  bool full = false;                      // nothing is shortened, however long the lines
  const std::stop_token* stop = nullptr;  // asked once a row
};

// "query [3, 3]" and one line per row: what does not fit is shortened with "...". A tensor of rank 3 gives one box per
// matrix.
std::vector<TextBox> boxes_of(const Quantity& quantity, const TextRoom& room);

// The caption and the pixels, dark to bright, two characters each.
TextBox box_of(const Picture& picture);

}  // namespace qkv::inline explaining
