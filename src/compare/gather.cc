// Sorts the numbers of each seed into the rows of a comparison.
#include "compare/gather.h"

#include <algorithm>

#include "compare/catalog.h"

namespace qkv {

double ComparedPoint::mean() const {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double ComparedGradient::ratio() const {
  double sum = 0;
  const std::vector<double>&near = norm.front().values, &far = norm.back().values;
  for (std::size_t i = 0; i < near.size(); ++i) sum += far[i] / near[i];
  return sum / static_cast<double>(near.size());
}

}  // namespace qkv

namespace qkv::comparison {
namespace {

// The row for which `is_it` holds; `fresh`, behind the others, if there is none yet.
template <class Row, class IsIt>
Row& row_of(std::vector<Row>& rows, const IsIt& is_it, Row fresh) {
  const auto found = std::find_if(rows.begin(), rows.end(), is_it);
  return found == rows.end() ? rows.emplace_back(std::move(fresh)) : *found;
}

void add_points(const std::map<std::int64_t, double>& values, std::vector<ComparedPoint>& points) {
  for (const auto& [at, value] : values) {
    row_of(points, [wanted = at](const ComparedPoint& point) { return point.at == wanted; }, {.at = at})
        .values.push_back(value);
  }
}

double mean_of(const std::map<std::int64_t, double>& values) {
  double sum = 0;
  for (const auto& [at, value] : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

void add_gradients(Comparison& comparison, const std::string& model, const std::string& when,
                   const std::map<std::int64_t, double>& norms) {
  const auto is_it = [&](const ComparedGradient& row) { return row.model == model && row.when == when; };
  add_points(norms, row_of(comparison.gradients, is_it, {.model = model, .when = when}).norm);
}

void add_run(Comparison& comparison, const Run& run, const RunResult& result) {
  if (is_clipped_or_not(run)) {
    const auto is_it = [&](const ComparedClipping& row) { return row.clip == run.clip; };
    ComparedClipping& row = row_of(comparison.clipping, is_it, {.model = run.model, .clip = run.clip});
    row.largest.push_back(result.norms.largest);
    row.median.push_back(result.norms.median);
    row.accuracy.push_back(mean_of(result.accuracy));
  }
  if (run.clip == 0) return;
  const auto is_it = [&](const ComparedTask& row) { return row.task == run.task && row.model == run.model; };
  add_points(result.accuracy, row_of(comparison.tasks, is_it,
                                     {.task = run.task,
                                      .model = run.model,
                                      .parameters = result.parameters,
                                      .asked = result.asked,
                                      .chance = catalog_task(run.task).chance})
                                  .accuracy);
  if (!result.gradients.empty()) add_gradients(comparison, run.model, "end", result.gradients);
}

}  // namespace qkv::comparison
