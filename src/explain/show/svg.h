// An SVG writer that also draws heat maps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "explain/show/heat.h"
#include "io/svg.h"

namespace qkv::inline explaining {

using io::Anchor;
using io::kFaint;
using io::kInk;

inline constexpr double kEdge = 28;          // free to each side of a picture
inline constexpr std::size_t kLongest = 16;  // letters of a name

// How a role is shown: its name, its colours on a terminal (as painted() takes it) and on paper, its letter.
struct RoleStyle {
  const char *name, *terminal, *paper, *letter;
};
const RoleStyle& style_of(Role role);

// Cells in units of a cell: a path for each colour that is not empty; runs of one colour are one piece.
std::string cell_paths(std::int64_t rows, std::int64_t columns, std::span<const std::string> colors,
                       const std::function<std::size_t(std::int64_t row, std::int64_t column)>& color_at);

class Svg : public io::Svg {
 public:
  // Cells of a map, `cell` wide and high; infinities and NaN are grey.
  void map(double x, double y, double cell, const HeatCells& cells, const HeatScale& scale);

  static double width_of(std::string_view text);  // of letters of 12 points, at most
  static std::string cut(std::string_view text, std::size_t columns);
};

}  // namespace qkv::inline explaining
