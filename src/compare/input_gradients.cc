// Measures gradients at the inputs of a model.
#include "compare/input_gradients.h"

#include <cmath>
#include <vector>

#include "compare/sequence_tasks.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kFarthest = 128;
constexpr std::size_t kExamples = 16;

}  // namespace

std::map<std::int64_t, double> input_gradients(const SequenceModel& model, std::uint64_t seed) {
  SequenceModel exact(model, Dtype::f64);
  std::map<std::int64_t, double> norms;
  for (std::int64_t distance = 1; distance <= kFarthest; distance *= 2) {
    const std::int64_t noise = kFarthest - distance;
    std::vector<SequenceExample> examples;
    for (std::size_t i = 0; i < kExamples; ++i) {
      Random random(seed, i);
      examples.push_back(draw_recall(distance, noise, random));
      examples.back().targets.back() = (examples.back().targets.back() + 1) % kSymbols;
    }
    const SequenceBatch batch = side_by_side(examples);
    const Tensor gradients = exact.input_gradients(batch);
    double sum = 0;
    for (std::size_t i = 0; i < kExamples; ++i) {
      const std::int64_t row = batch.offsets.data<std::int32_t>()[i] + noise;
      for (std::int64_t d = 0; d < gradients.size(1); ++d) {
        const double gradient = gradients.view().at<double>({row, d});
        sum += gradient * gradient;
      }
    }
    norms[distance] = std::sqrt(sum / kExamples);
  }
  return norms;
}

}  // namespace qkv::comparison
