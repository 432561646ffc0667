// Draws line charts as SVG.
#include "lab/compare/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/mathematics.h"

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

// From numbers to positions in one chart.
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

void draw_y_tick(std::string& svg, double y, const std::string& label) {
  fmt::format_to(std::back_inserter(svg),
                 "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
                 "text-anchor=\"end\">{}</text>\n",
                 kLeft, y, kWidth - kRight, kGrid, kLeft - 6, y + 4, label);
}

void draw_axes(std::string& svg, const Chart& chart, const ChartAxes& axes) {
  const auto to = std::back_inserter(svg);
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
    fmt::format_to(to, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g}</text>\n", last,
                   kHeight - kBottom + 16, x);
  }
  fmt::format_to(to, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                 (kLeft + kWidth - kRight) / 2, kHeight - 10, chart.x_name);
  if (chart.rule) {
    fmt::format_to(to, "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#57606a\" stroke-dasharray=\"4 4\"/>\n", kLeft,
                   axes.y(*chart.rule), kWidth - kRight);
  }
}

void draw_series(std::string& svg, const ChartSeries& series, const ChartAxes& axes) {
  const auto to = std::back_inserter(svg);
  const char* color = color_of(series.name);
  std::string line, dots, above, below;
  for (const ChartPoint& point : series.points) {
    if (axes.decades && !(point.low > 0)) continue;
    const double x = axes.x(point.x);
    line += fmt::format("{:.1f},{:.1f} ", x, axes.y(point.y));
    above += fmt::format("{:.1f},{:.1f} ", x, axes.y(point.high));
    below = fmt::format("{:.1f},{:.1f} ", x, axes.y(point.low)) + below;
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>", x, axes.y(point.y), color);
  }
  fmt::format_to(to, "<polygon fill=\"{}\" fill-opacity=\"0.15\" points=\"{}{}\"/>", color, above, below);
  fmt::format_to(to, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"{}\"/>{}\n", color, line,
                 dots);
}

void draw_chart(std::string& svg, const Chart& chart) {
  const auto to = std::back_inserter(svg);
  const ChartAxes axes(chart);
  fmt::format_to(to, "<text x=\"{:.1f}\" y=\"20\" font-size=\"14\" fill=\"#1f2328\">{}</text>\n", kLeft, chart.title);
  fmt::format_to(to, "<text x=\"{:.1f}\" y=\"40\">", kLeft);
  for (const ChartSeries& series : chart.series) {
    fmt::format_to(to, "<tspan fill=\"{}\" dx=\"{}\">\xe2\x97\x8f {}</tspan>", color_of(series.name),
                   &series == &chart.series.front() ? 0 : 9, series.name);
  }
  svg += "</text>\n";
  draw_axes(svg, chart, axes);
  svg += "<g clip-path=\"url(#inside)\">\n";
  for (const ChartSeries& series : chart.series) draw_series(svg, series, axes);
  svg += "</g>\n";
}

}  // namespace

std::string charts_svg(const std::vector<Chart>& charts) {
  const std::size_t columns = std::min(kColumns, charts.size()), rows = (charts.size() + columns - 1) / columns;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\" fill=\"#57606a\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n<clipPath id=\"inside\"><rect x=\"{2}\" y=\"{3}\" width=\"{4}\" "
      "height=\"{5}\"/></clipPath>\n",
      kWidth * static_cast<double>(columns), kHeight * static_cast<double>(rows), kLeft - 4, kTop - 4,
      kWidth - kLeft - kRight + 8, kHeight - kTop - kBottom + 8);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    fmt::format_to(std::back_inserter(svg), "<g transform=\"translate({:.0f} {:.0f})\">\n",
                   kWidth * static_cast<double>(i % columns), kHeight * static_cast<double>(i / columns));
    draw_chart(svg, charts[i]);
    svg += "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace qkv::comparison
