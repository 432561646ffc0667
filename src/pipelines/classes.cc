// Sorts classes by their logits.
#include "pipelines/classes.h"

#include <algorithm>
#include <numeric>

#include "core/mathematics.h"

namespace qkv::inline pipelines {

double sigmoid(double x) { return 1 / (1 + exp(-x)); }

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> row(logits.begin(), logits.end());
  const double most = *std::ranges::max_element(row);
  double sum = 0;
  for (double& each : row) sum += each = exp(each - most);
  for (double& each : row) each /= sum;
  return row;
}

std::vector<ClassProbability> most_probable(std::span<const float> logits, const std::vector<std::string>& labels,
                                            std::int64_t top, ClassScores scores) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  std::vector<double> values(logits.begin(), logits.end());
  if (scores == ClassScores::softmax) values = softmax(logits);
  if (scores == ClassScores::sigmoid) std::ranges::transform(values, values.begin(), sigmoid);
  std::vector<ClassProbability> found;
  for (const std::size_t i : order) found.push_back({labels[i], values[i]});
  return found;
}

}  // namespace qkv::inline pipelines
