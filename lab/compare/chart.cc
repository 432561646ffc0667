// Draws line charts as SVG.
#include "lab/compare/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/mathematics.h"
#include "io/svg.h"

namespace qkv::comparison {
namespace {

constexpr double kWidth = 460, kHeight = 300, kLeft = 58, kRight = 18, kTop = 56, kBottom = 44;
constexpr std::size_t kColumns = 2;
constexpr const char* kGrid = "#d8dee4";

const char* color_of(const std::string& model) {
  static const std::map<std::string, const char*> colors = {
      {"rnn", "#cf222e"},           {"lstm", "#bf6a02"},
      {"lstm-open", "#e2a93b"},     {"gru", "#8250df"},
      {"cnn", "#1a7f37"},           {"transformer", "#0969da"},
      {"seq2seq-fixed", "#cf222e"}, {"seq2seq-additive", "#8250df"},
      {"seq2seq-dot", "#1a7f37"}};
  const auto found = colors.find(model);
  return found == colors.end() ? "#57606a" : found->second;
}

// Maps numbers to positions in one chart.
struct ChartAxes {
  explicit ChartAxes(const Chart& chart) : decades(chart.scale == ChartScale::decades) {
    double least_y = std::numeric_limits<double>::infinity(), most_y = 0, least_x = least_y, most_x = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        xs.insert(point.x);
        least_x = std::min(least_x, point.x), most_x = std::max(most_x, point.x);
        if (decades && !(point.low > 0)) continue;
        least_y = std::min(least_y, point.low), most_y = std::max(most_y, point.high);
      }
    }
    left = log(least_x), right = log(most_x);
    if (!decades || !(most_y > 0)) return;
    if (chart.least) least_y = std::max(least_y, *chart.least);
    bottom = std::floor(log10(least_y)), top = std::max(bottom + 1, std::ceil(log10(most_y)));
  }

  double x(double value) const {
    const double share = right > left ? (log(value) - left) / (right - left) : 0.5;
    return kLeft + (kWidth - kLeft - kRight) * share;
  }
  double y(double value) const {
    const double share = decades ? (log10(value) - bottom) / (top - bottom) : value;
    return kHeight - kBottom - (kHeight - kTop - kBottom) * share;
  }

  bool decades;
  double left = 0, right = 1, bottom = 0, top = 1;
  std::set<double> xs{};
};

constexpr int kSize = 11;  // of letters

void draw_y_tick(io::Svg& svg, double y, const std::string& label) {
  svg.line({{kLeft, y}, {kWidth - kRight, y}}, {.stroke = kGrid});
  svg.text(kLeft - 6, y + 4, label, {.fill = io::kFaint, .anchor = io::Anchor::end, .size = kSize});
}

void draw_axes(io::Svg& svg, const Chart& chart, const ChartAxes& axes) {
  const io::SvgText below{.fill = io::kFaint, .anchor = io::Anchor::middle, .size = kSize};
  if (axes.decades) {
    const double step = std::max(1.0, std::ceil((axes.top - axes.bottom) / 6));
    for (double power = axes.bottom; power <= axes.top; power += step) {
      const double value = pow(10, power);
      const bool plain = power >= -2 && power <= 4;
      draw_y_tick(svg, axes.y(value), plain ? fmt::format("{:g}", value) : fmt::format("1e{:.0f}", power));
    }
  } else {
    for (int fifth = 0; fifth <= 5; ++fifth) draw_y_tick(svg, axes.y(fifth / 5.0), fmt::format("{:.1f}", fifth / 5.0));
  }
  double last = 0;  // position of the last label
  for (const double x : axes.xs) {
    if (axes.x(x) - last < 20) continue;
    last = axes.x(x);
    svg.text(last, kHeight - kBottom + 16, fmt::format("{:g}", x), below);
  }
  svg.text((kLeft + kWidth - kRight) / 2, kHeight - 10, chart.x_name, below);
  if (chart.rule) svg.line({{kLeft, axes.y(*chart.rule)}, {kWidth - kRight, axes.y(*chart.rule)}}, {.dashed = true});
}

void draw_series(io::Svg& svg, const ChartSeries& series, const ChartAxes& axes) {
  const char* color = color_of(series.name);
  io::Svg::Points line, range, below;
  for (const ChartPoint& point : series.points) {
    if (axes.decades && !(point.low > 0)) continue;
    const double x = axes.x(point.x);
    line.emplace_back(x, axes.y(point.y));
    range.emplace_back(x, axes.y(point.high));
    below.emplace_back(x, axes.y(point.low));
  }
  range.insert(range.end(), below.rbegin(), below.rend());
  svg.polygon(range, color, 0.15);
  svg.line(line, {.stroke = color, .width = 1.8});
  for (const auto& [x, y] : line) svg.disc(x, y, 2.5, color);
}

void draw_chart(io::Svg& svg, const Chart& chart) {
  const ChartAxes axes(chart);
  svg.text(kLeft, 20, chart.title, {.size = 14});
  double x = kLeft;
  for (const ChartSeries& series : chart.series) {
    const std::string label = "\xe2\x97\x8f " + series.name;
    svg.text(x, 40, label, {.fill = color_of(series.name), .size = kSize});
    x += 6 * static_cast<double>(series.name.size()) + 20;
  }
  draw_axes(svg, chart, axes);
  svg.begin_inside(kLeft - 4, kTop - 4, kWidth - kLeft - kRight + 8, kHeight - kTop - kBottom + 8);
  for (const ChartSeries& series : chart.series) draw_series(svg, series, axes);
  svg.end();
}

}  // namespace

std::string charts_svg(const std::vector<Chart>& charts) {
  const std::size_t columns = std::min(kColumns, charts.size()), rows = (charts.size() + columns - 1) / columns;
  io::Svg svg;
  std::string titles;
  for (std::size_t i = 0; i < charts.size(); ++i) {
    svg.begin(kWidth * static_cast<double>(i % columns), kHeight * static_cast<double>(i / columns));
    draw_chart(svg, charts[i]);
    svg.end();
    titles += (i > 0 ? "; " : "") + charts[i].title;
  }
  return svg.picture(kWidth * static_cast<double>(columns), kHeight * static_cast<double>(rows), titles);
}

}  // namespace qkv::comparison
