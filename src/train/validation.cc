// Measures a model's weights on the validation examples.
#include "train/validation.h"

#include <numbers>

#include "train/data/batches.h"

namespace qkv::training {

void add(const LossSum& part, LossSum& sum) {
  sum.sum += part.sum;
  sum.nll += part.nll;
  sum.count += part.count;
  sum.metric += part.metric;
}

Measures measure(const TrainingTask& task, const TrainingConfig& config) {
  LossSum sum;
  for (const auto& chosen : make_batches(task.valid, config.batch_tokens, config.seed, 0)) {
    add(task.loss(chosen), sum);
  }
  const auto count = static_cast<double>(sum.count);
  Measures mean{.loss = sum.sum / count};
  if (const std::int64_t bytes = task.valid.bytes(); bytes > 0) {
    mean.bits_per_byte = sum.sum / std::numbers::ln2 / static_cast<double>(bytes);
  }
  if (!task.model.metric_name().empty()) mean.metric = sum.metric / count;
  return mean;
}

bool is_better(const Measures& one, const Measures& other) {
  if (one.metric && other.metric && *one.metric != *other.metric) return *one.metric > *other.metric;
  return one.loss < other.loss;
}

}  // namespace qkv::training
