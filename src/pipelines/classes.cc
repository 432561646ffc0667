// Sorts classes by their logits.
#include "pipelines/classes.h"

#include <algorithm>
#include <numeric>

#include "core/mathematics.h"

namespace qkv::inline pipelines {

double sigmoid(double x) { return 1 / (1 + exp(-x)); }

std::vector<ClassProbability> most_probable(std::span<const float> logits, const std::vector<std::string>& labels,
                                            std::int64_t top, bool independent) {
  const std::vector<double> row(logits.begin(), logits.end());
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  double sum = 0;
  for (const double logit : row) sum += exp(logit - row[order[0]]);
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  std::vector<ClassProbability> found;
  for (const std::size_t i : order) {
    found.push_back({labels[i], independent ? sigmoid(row[i]) : exp(row[i] - row[order[0]]) / sum});
  }
  return found;
}

}  // namespace qkv::inline pipelines
