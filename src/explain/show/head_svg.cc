// One head as a picture: the weights as a map, a row for each query and a column for each key.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/show/svg.h"
#include "explain/steps/text_parts.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

constexpr double kRoom = 620;       // for the columns
constexpr double kLeastLabel = 14;  // from one label to the next
constexpr double kNumbers = 34;     // a cell of this size holds its number
constexpr double kTurned = 0.77;    // of the length of a label that is turned by 50 degrees
// Darker cells have white numbers: black and white have the same contrast here.
constexpr double kDark = 0.7;

double widest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels) width = std::max(width, Svg::width_of(Svg::cut(label, kLongest)));
  return width + 12;
}

std::string short_weight(double weight) {
  const std::string text = fixed_text(weight, 2);
  return text.starts_with("0.") ? text.substr(1) : text;
}

// The legend of the colours.
void add_scale(Svg& svg, double x, double y) {
  constexpr int kSteps = 32;
  constexpr double kStep = 5;
  svg.text(x, y + 11, "weight 0", {.fill = kFaint});
  x += Svg::width_of("weight 0") + 4;
  for (int i = 0; i < kSteps; ++i) {
    const double share = std::sqrt(static_cast<double>(i) / (kSteps - 1));
    svg.rect(x + kStep * i, y, kStep, 14, hex(color_of_share(share, Ground::light)));
  }
  svg.frame(x, y, kStep * kSteps, 14, kFaint);
  svg.text(x + kStep * kSteps + 8, y + 11, "1", {.fill = kFaint});
}

}  // namespace

std::string to_svg(const HeadTrace& trace) {
  const auto rows = static_cast<double>(trace.tokens.size()), columns = static_cast<double>(trace.keys.size());
  const double most = std::max(rows, columns), cell = std::clamp(kRoom / most, most > 64 ? 4.0 : 18.0, 44.0);
  const auto every = static_cast<std::size_t>(std::ceil(kLeastLabel / cell));  // label
  const double x = kEdge + widest(trace.tokens), y = 60 + widest(trace.keys) * kTurned;
  const double right = x + cell * columns, bottom = y + cell * rows;
  const HeatCells cells = heat_cells(trace.weights, trace.weights.size(0), trace.weights.size(1));
  Svg svg;
  const double width = std::max(right + widest(trace.keys) * kTurned, 520.0) + kEdge;
  svg.text(kEdge, 34, Svg::cut(trace.title, static_cast<std::size_t>((width - 2 * kEdge) / 9)),
           {.size = 15, .bold = true});
  svg.map(x, y, cell, cells, HeatScale(cells, Role::weight));
  svg.frame(x, y, right - x, bottom - y, kFaint);
  for (std::size_t i = 0; i < trace.tokens.size(); i += every) {
    svg.text(x - 8, y + cell * (static_cast<double>(i) + 0.5) + 4, Svg::cut(trace.tokens[i], kLongest),
             {.fill = style_of(Role::query).paper, .anchor = Anchor::end});
  }
  for (std::size_t j = 0; j < trace.keys.size(); j += every) {
    svg.text(x + cell * (static_cast<double>(j) + 0.5), y - 8, Svg::cut(trace.keys[j], kLongest),
             {.fill = style_of(Role::key).paper, .turn = -50});
  }
  for (std::int64_t i = 0; i < cells.values.size(0) && cell >= kNumbers; ++i) {
    for (std::int64_t j = 0; j < cells.values.size(1); ++j) {
      const double weight = cells.values.view().at<double>({i, j});
      svg.text(x + cell * (static_cast<double>(j) + 0.5), y + cell * (static_cast<double>(i) + 0.5) + 4,
               short_weight(weight),
               {.fill = std::sqrt(weight) > kDark ? "#ffffff" : kInk, .anchor = Anchor::middle, .size = 11});
    }
  }
  add_scale(svg, x, bottom + 14);
  return svg.picture(width, bottom + 28 + kEdge, trace.title);
}

}  // namespace qkv
