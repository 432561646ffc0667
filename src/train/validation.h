// Validation: the measures of a model's weights, and which of two are better.
#pragma once

#include <optional>

#include "qkv/train/training.h"

namespace qkv::training {

// Means over all validation examples.
struct Measures {
  double loss = 0;
  std::optional<double> bits_per_byte{};  // where the examples are text
  std::optional<double> metric{};         // where the model has one (Trainable::metric_name)
};

Measures measure(const TrainingTask& task, const TrainingConfig& config);

// The higher metric; without one, or with equal ones, the lower loss.
bool is_better(const Measures& one, const Measures& other);

void add(const LossSum& part, LossSum& sum);

}  // namespace qkv::training
