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
                                            std::int64_t top, bool independent) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  const std::vector<double> shares = independent ? std::vector<double>() : softmax(logits);
  std::vector<ClassProbability> found;
  for (const std::size_t i : order) found.push_back({labels[i], independent ? sigmoid(logits[i]) : shares[i]});
  return found;
}

}  // namespace qkv::inline pipelines
