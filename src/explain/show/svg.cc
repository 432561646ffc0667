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

// A path for each of 64 colours, in units of a cell; runs of one colour are one piece.
void Svg::map(double x, double y, double cell, const HeatCells& cells, const HeatScale& scale) {
  constexpr std::size_t kLevels = 64;
  std::array<std::string, kLevels + 1> paths;
  const std::int64_t height = cells.values.size(0), width = cells.values.size(1);
  const auto level_at = [&](std::int64_t i, std::int64_t j) {
    const double value = cells.values.view().at<double>({i, j});
    return std::isfinite(value) ? static_cast<std::size_t>(scale.share(value) * (kLevels - 1) + 0.5) : kLevels;
  };
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0, end = 0; j < width; j = end) {
      const std::size_t level = level_at(i, j);
      for (end = j + 1; end < width && level_at(i, end) == level;) ++end;
      if (level > 0) paths[level] += fmt::format("M{} {}h{}v1h-{}z", j, i, end - j, end - j);
    }
  }
  rect(x, y, cell * static_cast<double>(width), cell * static_cast<double>(height),
       hex(color_of_share(0, Ground::light)));
  body_ +=
      fmt::format("<g transform=\"translate({:.1f} {:.1f}) scale({})\" shape-rendering=\"crispEdges\">\n", x, y, cell);
  for (std::size_t level = 0; level < paths.size(); ++level) {
    if (paths[level].empty()) continue;
    const Rgb color = level == kLevels ? color_of_no_number(Ground::light)
                                       : color_of_share(static_cast<double>(level) / (kLevels - 1), Ground::light);
    body_ += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", hex(color), paths[level]);
  }
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
