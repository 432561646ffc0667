// Steps as a picture: their matrices side by side, each number on the colour of its role.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "explain/observe/require.h"
#include "explain/show/matrix_text.h"
#include "explain/show/svg.h"

namespace qkv {
namespace {

constexpr double kRow = 24;
constexpr double kHead = 26;  // above the numbers of a matrix
constexpr double kWidest = 1080;
constexpr std::int64_t kMost = 16;  // numbers of a row or column, and matrices of a tensor
constexpr double kTint = 0.3;       // of the largest number

// A matrix, or its upper left corner, in text.
struct Panel {
  Role role;
  std::string title;
  std::vector<std::string> rows{}, columns{};
  std::vector<std::vector<std::string>> cells{};
  std::vector<std::vector<double>> parts{};  // of the largest
  double names = 0, cell = 0;                // widths

  double width() const {
    return std::max(names + cell * static_cast<double>(cells.empty() ? 0 : cells.front().size()),
                    Svg::width_of(title) * 1.15);
  }
  double top() const { return kHead + (columns.empty() ? 0 : 16); }
  double height() const { return top() + kRow * static_cast<double>(cells.size()); }
};

Panel panel_of(const Quantity& quantity, const TensorView& matrix, const std::string& name) {
  const NumberFormat format = format_for(quantity);
  const std::int64_t height = std::min(kMost, matrix.size(0)), width = std::min(kMost, matrix.size(1));
  const bool part = height < matrix.size(0) || width < matrix.size(1);
  Panel panel{.role = quantity.role,
              .title = fmt::format("{}{} {}{}", style_of(quantity.role).letter, name, to_string(matrix.shape()),
                                   part ? ", the first of them" : "")};
  if (std::ssize(quantity.rows) == matrix.size(0)) panel.rows = quantity.rows;
  if (std::ssize(quantity.columns) == matrix.size(1)) panel.columns = quantity.columns;
  panel.rows.resize(std::min(panel.rows.size(), static_cast<std::size_t>(height)));
  panel.columns.resize(std::min(panel.columns.size(), static_cast<std::size_t>(width)));
  double largest = 0;
  for (std::int64_t i = 0; i < height; ++i) {
    auto& texts = panel.cells.emplace_back();
    auto& parts = panel.parts.emplace_back();
    for (std::int64_t j = 0; j < width; ++j) {
      const double value = matrix.at<double>({i, j});
      texts.push_back(format(value));
      parts.push_back(std::isfinite(value) ? std::abs(value) : 0);
      largest = std::max(largest, parts.back());
      panel.cell = std::max(panel.cell, Svg::width_of(texts.back()) + 14);
    }
  }
  for (std::vector<double>& row : panel.parts) {
    for (double& value : row) value = largest > 0 ? value / largest : 0;
  }
  for (std::string& name_of_row : panel.rows) {
    name_of_row = Svg::cut(name_of_row, kLongest);
    panel.names = std::max(panel.names, Svg::width_of(name_of_row) + 12);
  }
  for (std::string& column : panel.columns) {
    column = Svg::cut(column, kLongest);
    panel.cell = std::max(panel.cell, Svg::width_of(column) + 8);
  }
  return panel;
}

void add_panels(std::vector<Panel>& panels, const Quantity& quantity) {
  const TensorView values = quantity.values;
  const std::string name = quantity.name + (quantity.substituted ? " (substituted)" : "");
  if (values.rank() == 1) panels.push_back(panel_of(quantity, values.reshape({1, values.size(0)}), name));
  if (values.rank() == 2) panels.push_back(panel_of(quantity, values, name));
  if (values.rank() < 3) return;
  for (std::int64_t i = 0; i < std::min(kMost, values.size(0)); ++i) {
    panels.push_back(panel_of(quantity, values.select(0, i), fmt::format("{}[{}]", name, i + 1)));
  }
}

void draw(Svg& svg, const Panel& panel, double x, double y) {
  const std::string role = style_of(panel.role).paper;
  svg.text(x, y + 14, panel.title, {.fill = role, .size = 13, .bold = true});
  const double left = x + panel.names, top = y + panel.top();
  for (std::size_t j = 0; j < panel.columns.size(); ++j) {
    svg.text(left + panel.cell * static_cast<double>(j + 1) - 6, top - 6, panel.columns[j],
             {.fill = kFaint, .anchor = Anchor::end, .size = 11});
  }
  for (std::size_t i = 0; i < panel.cells.size(); ++i) {
    const double row = top + kRow * static_cast<double>(i);
    if (i < panel.rows.size()) svg.text(left - 8, row + 16, panel.rows[i], {.fill = kFaint, .anchor = Anchor::end});
    for (std::size_t j = 0; j < panel.cells[i].size(); ++j) {
      const double column = left + panel.cell * static_cast<double>(j);
      svg.tint(column, row, panel.cell, kRow, role, panel.parts[i][j] * kTint);
      svg.text(column + panel.cell - 6, row + 16, panel.cells[i][j], {.anchor = Anchor::end});
    }
  }
  const double columns = panel.cells.empty() ? 0 : static_cast<double>(panel.cells.front().size());
  svg.frame(left, top, panel.cell * columns, kRow * static_cast<double>(panel.cells.size()), role);
}

}  // namespace

std::string to_svg(const Explanation& explanation, int step) {
  int last = 0;
  for (const Section& section : explanation.sections) last = std::max(last, section.number);
  require(step >= 0 && step <= last, "there is no step {}; the steps are 1 to {}", step, last);
  Svg svg;
  svg.text(kEdge, 34, explanation.title, {.size = 18, .bold = true});
  double y = 50, right = Svg::width_of(explanation.title) * 1.5;
  for (const Section& section : explanation.sections) {
    if (section.number == 0 || (step != 0 && section.number != step)) continue;
    const std::string title = fmt::format("Step {}. {}", section.number, section.title);
    svg.text(kEdge, y + 20, title, {.size = 15, .bold = true});
    right = std::max(right, Svg::width_of(title) * 1.25);
    std::vector<Panel> panels;
    for (const Block& block : section.blocks) {
      for (const Quantity& quantity : block.quantities) add_panels(panels, quantity);
    }
    double x = kEdge, bottom = y += 34;
    for (const Panel& panel : panels) {
      if (x > kEdge && x + panel.width() > kWidest) x = kEdge, y = bottom + 18;
      draw(svg, panel, x, y);
      bottom = std::max(bottom, y + panel.height());
      right = std::max(right, x + panel.width());
      x += panel.width() + kEdge;
    }
    y = bottom + 24;
  }
  return svg.picture(right + kEdge, y + 4, explanation.title);
}

}  // namespace qkv
