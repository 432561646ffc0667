// Line charts side by side, as SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace qkv::comparison {

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // what y is the mean of
};

struct ChartSeries {
  std::string name;  // of a model, which has one colour in all charts
  std::vector<ChartPoint> points{};
};

enum class ChartScale {
  share,    // 0 to 1
  decades,  // logarithms; what is not above 0 is left out
};

// x has a logarithmic axis.
struct Chart {
  std::string title, x_name;
  ChartScale scale = ChartScale::share;
  std::vector<ChartSeries> series{};
  std::optional<double> rule{};   // a dashed line at this y
  std::optional<double> least{};  // of decades: lines below leave the chart
};

// The same bytes for the same charts.
std::string charts_svg(const std::vector<Chart>& charts);

}  // namespace qkv::comparison
