// Matrices as heat: which cell of a map shows which numbers, and how dark it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "qkv/explain/explain.h"

namespace qkv::inline explaining {

using Rgb = std::array<std::uint8_t, 3>;

// On white paper, and on a dark ground.
enum class Ground { light, dark };

// For a share from 0 to 1; the stops are equally spaced.
using ColorStops = std::array<std::array<double, 3>, 4>;
Rgb color_between(const ColorStops& stops, double share);

// The colours of the page (web/src/page.css): from weight 0 to 1, and for infinities and NaN.
Rgb color_of_share(double share, Ground ground);
Rgb color_of_no_number(Ground ground);
std::string hex(const Rgb& color);

// " .:-=+*#%@", for shares from 0 to 1.
char shade_of_share(double share);

// A matrix as cells: each is the mean of a block of its numbers, so that there are no more than asked for. Where blocks
// do not divide the matrix, the last ones are smaller.
struct HeatCells {
  Tensor values;                       // [rows, columns], f64
  std::int64_t rows = 1, columns = 1;  // of a block

  bool are_means() const { return rows > 1 || columns > 1; }
};
HeatCells heat_cells(const TensorView& matrix, std::int64_t most_rows, std::int64_t most_columns);

// Weights go from 0 to 1 (means of weights to the largest of them) by the root, which keeps small ones apart; other
// numbers from the least to the largest.
struct HeatScale {
  HeatScale(const HeatCells& cells, Role role);

  double share(double value) const;  // 0 to 1; of finite numbers
  // "-1 to 3"; empty for the usual scale of weights
  std::string text() const;

 private:
  double from_ = 0, to_ = 1;
  bool root_ = false;
};

}  // namespace qkv::inline explaining
