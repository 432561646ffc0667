// Draws maps as paths.
#include "explain/show/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

constexpr double kColumn = 7.2;  // width of a letter

}  // namespace

const RoleStyle& style_of(Role role) {
  static constexpr RoleStyle kStyles[] = {
      {"none", "", kFaint, ""},          {"input", "32", "#0a6b4f", "X "},  // green
      {"query", "31", "#b8341b", "Q "},  {"key", "33", "#7d5a00", "K "},    // red, yellow
      {"value", "35", "#96308f", "V "},  {"score", "34", "#1b57b3", "S "},  // magenta, blue
      {"weight", "36", "#05708f", "W "}, {"output", "1", kInk, "O "},       // cyan, bold
  };
  return kStyles[static_cast<std::size_t>(role)];
}

std::string cell_paths(std::int64_t rows, std::int64_t columns, std::span<const std::string> colors,
                       const std::function<std::size_t(std::int64_t, std::int64_t)>& color_at) {
  std::vector<std::string> paths(colors.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0, end = 0; j < columns; j = end) {
      const std::size_t color = color_at(i, j);
      for (end = j + 1; end < columns && color_at(i, end) == color;) ++end;
      if (!colors[color].empty()) paths[color] += fmt::format("M{} {}h{}v1h-{}z", j, i, end - j, end - j);
    }
  }
  std::string svg;
  for (std::size_t color = 0; color < paths.size(); ++color) {
    if (!paths[color].empty()) svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", colors[color], paths[color]);
  }
  return svg;
}

void Svg::map(double x, double y, double cell, const HeatCells& cells, const HeatScale& scale) {
  constexpr std::size_t kLevels = 64;
  std::array<std::string, kLevels + 1> colors;  // the first is the ground; the last, of no numbers
  for (std::size_t level = 1; level < kLevels; ++level) {
    colors[level] = hex(color_of_share(static_cast<double>(level) / (kLevels - 1), Ground::light));
  }
  colors[kLevels] = hex(color_of_no_number(Ground::light));
  const std::int64_t height = cells.values.size(0), width = cells.values.size(1);
  rect(x, y, cell * static_cast<double>(width), cell * static_cast<double>(height),
       hex(color_of_share(0, Ground::light)));
  body_ +=
      fmt::format("<g transform=\"translate({:.1f} {:.1f}) scale({})\" shape-rendering=\"crispEdges\">\n", x, y, cell);
  body_ += cell_paths(height, width, colors, [&](std::int64_t i, std::int64_t j) {
    const double value = cells.values.view().at<double>({i, j});
    return std::isfinite(value) ? static_cast<std::size_t>(scale.share(value) * (kLevels - 1) + 0.5) : kLevels;
  });
  body_ += "</g>\n";
}

double Svg::width_of(std::string_view text) { return kColumn * static_cast<double>(columns_of(text)); }

std::string Svg::cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  std::string kept = fitted(text, columns - 1);
  kept.erase(kept.find_last_not_of(' ') + 1);
  return kept + "\xe2\x80\xa6";  // an ellipsis
}

}  // namespace qkv::inline explaining
