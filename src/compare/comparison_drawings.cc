// Chooses what of a comparison is drawn, and how.
#include "compare/comparison_drawings.h"

#include <fmt/format.h>

#include <algorithm>

#include "compare/catalog.h"
#include "compare/chart.h"

namespace qkv::comparison {
namespace {

ChartSeries series_of(const std::string& model, const std::vector<ComparedPoint>& points) {
  ChartSeries series{.name = model};
  for (const ComparedPoint& point : points) {
    const auto [least, most] = std::minmax_element(point.values.begin(), point.values.end());
    series.points.push_back({.x = static_cast<double>(point.at), .y = point.mean(), .low = *least, .high = *most});
  }
  return series;
}

ChartSeries series_of(const std::string& model, const ComparedGrowth& growth, double scale) {
  ChartSeries series{.name = model};
  for (std::size_t i = 0; i < growth.lengths.size(); ++i) {
    const double y = growth.values[i] * scale;
    series.points.push_back({.x = static_cast<double>(growth.lengths[i]), .y = y, .low = y, .high = y});
  }
  return series;
}

std::vector<Chart> accuracy_charts(const Comparison& comparison) {
  std::vector<Chart> charts;
  for (const ComparedTask& result : comparison.tasks) {
    const CatalogTask& task = catalog_task(result.task);
    if (charts.empty() || !charts.back().title.starts_with(task.name + ":")) {
      charts.push_back({.title = task.name + ": share of right answers", .x_name = task.at, .rule = result.chance});
    }
    charts.back().series.push_back(series_of(result.model, result.accuracy));
  }
  return charts;
}

std::vector<Chart> gradient_charts(const Comparison& comparison) {
  constexpr double kLeast = 1e-16;
  std::vector<Chart> charts;
  for (const std::string when : {"start", "end"}) {
    Chart chart{.title = fmt::format("gradient of the loss at a token, at the {} of training", when),
                .x_name = "how many tokens before",
                .scale = ChartScale::decades,
                .least = kLeast};
    for (const ComparedGradient& gradient : comparison.gradients) {
      if (gradient.when == when) chart.series.push_back(series_of(gradient.model, gradient.norm));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

// Of what reads, and of what translates.
std::vector<Chart> cost_charts(const Comparison& comparison, const std::string& work) {
  const auto chart_of = [&](const std::string& title) {
    return Chart{.title = work + ": " + title, .x_name = "tokens of the sequence", .scale = ChartScale::decades};
  };
  Chart steps = chart_of("sequential steps"), operations = chart_of("operations of a token, after so many others");
  for (const ComparedStructure& one : comparison.structure) {
    if (one.work != work) continue;
    steps.series.push_back(series_of(one.model, one.sequential_steps, 1));
    operations.series.push_back(series_of(one.model, one.operations_in_turn, 1));
  }
  if (steps.series.empty()) return {};
  std::vector<Chart> charts{std::move(steps), std::move(operations)};
  for (const std::string phase : {"training", "answering"}) {
    Chart time = chart_of(phase + ", microseconds per token, one thread");
    Chart memory = chart_of(phase + ", bytes per token");
    for (const ComparedCost& cost : comparison.cost) {
      if (cost.work != work || cost.phase != phase || cost.threads != 1) continue;
      time.series.push_back(series_of(cost.model, cost.seconds, 1e6));
      if (cost.memory) memory.series.push_back(series_of(cost.model, *cost.memory, 1));
    }
    charts.push_back(std::move(time));
    if (!memory.series.empty()) charts.push_back(std::move(memory));
  }
  return charts;
}

}  // namespace

std::map<std::string, std::string> drawings_of(const Comparison& comparison) {
  std::map<std::string, std::string> drawings;
  const auto add = [&](const char* name, const std::vector<Chart>& charts) {
    if (!charts.empty()) drawings[name] = charts_svg(charts);
  };
  add("accuracy.svg", accuracy_charts(comparison));
  add("gradient.svg", gradient_charts(comparison));
  add("cost.svg", cost_charts(comparison, "reading"));
  add("translating.svg", cost_charts(comparison, "translating"));
  return drawings;
}

}  // namespace qkv::comparison
