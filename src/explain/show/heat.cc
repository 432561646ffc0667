// The colours and scales of heat maps, and means of blocks.
#include "explain/show/heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/stop.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {

Rgb color_between(const ColorStops& stops, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * 3;
  const auto from = std::min<std::size_t>(static_cast<std::size_t>(at), 2);
  Rgb color{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double part = at - static_cast<double>(from);
    color[c] = static_cast<std::uint8_t>(std::lround(stops[from][c] * (1 - part) + stops[from + 1][c] * part));
  }
  return color;
}

Rgb color_of_share(double share, Ground ground) {
  static constexpr ColorStops kLight = {{{255, 255, 255}, {191, 227, 238}, {47, 143, 181}, {6, 58, 86}}};
  static constexpr ColorStops kDark = {{{23, 28, 39}, {18, 65, 88}, {37, 146, 185}, {220, 247, 255}}};
  return color_between(ground == Ground::light ? kLight : kDark, share);
}

Rgb color_of_no_number(Ground ground) { return ground == Ground::light ? Rgb{124, 133, 151} : Rgb{141, 151, 171}; }

std::string hex(const Rgb& color) { return fmt::format("#{:02x}{:02x}{:02x}", color[0], color[1], color[2]); }

char shade_of_share(double share) {
  static constexpr std::string_view kShades = " .:-=+*#%@";
  return kShades[static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kShades.size() - 1) + 0.5)];
}

HeatCells heat_cells(const TensorView& matrix, std::int64_t most_rows, std::int64_t most_columns) {
  const std::int64_t height = matrix.size(0), width = matrix.size(1);
  const auto parts = [](std::int64_t size, std::int64_t most) {
    return std::max<std::int64_t>((size + most - 1) / most, 1);
  };
  HeatCells cells{.values = {}, .rows = parts(height, most_rows), .columns = parts(width, most_columns)};
  cells.values = Tensor::zeros({parts(height, cells.rows), parts(width, cells.columns)}, Dtype::f64);
  double* sum = cells.values.data<double>();
  for (std::int64_t i = 0; i < height; ++i) {
    check_stop();
    double* row = sum + i / cells.rows * cells.values.size(1);
    for (std::int64_t j = 0; j < width; ++j) row[j / cells.columns] += matrix.at<double>({i, j});
  }
  for (std::int64_t i = 0; i < cells.values.size(0); ++i) {
    const std::int64_t rows = std::min(cells.rows, height - i * cells.rows);
    for (std::int64_t j = 0; j < cells.values.size(1); ++j) {
      *sum++ /= static_cast<double>(rows * std::min(cells.columns, width - j * cells.columns));
    }
  }
  return cells;
}

HeatScale::HeatScale(const HeatCells& cells, Role role) : root_(role == Role::weight) {
  if (root_ && !cells.are_means()) return;
  double least = root_ ? 0 : HUGE_VAL, most = root_ ? 0 : -HUGE_VAL;
  const double* values = cells.values.data<double>();
  for (std::int64_t i = 0; i < cells.values.element_count(); ++i) {
    if (!std::isfinite(values[i])) continue;
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  if (least <= most) from_ = least, to_ = most;
}

double HeatScale::share(double value) const {
  if (to_ <= from_) return value == 0 ? 0 : 1;
  const double part = std::clamp((value - from_) / (to_ - from_), 0.0, 1.0);
  return root_ ? std::sqrt(part) : part;
}

std::string HeatScale::text() const {
  return root_ && to_ == 1 ? "" : fmt::format("{} to {}", number_text(from_), number_text(to_));
}

}  // namespace qkv::inline explaining
