// Computes the learning rate of a step.
#include "qkv/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/mathematics.h"

namespace qkv {

double learning_rate(const ScheduleConfig& config, std::int64_t step, std::int64_t steps) {
  const double warmup = static_cast<double>(std::max<std::int64_t>(config.warmup, 1)), at = static_cast<double>(step);
  if (at <= warmup) return config.rate * at / warmup;
  if (config.decay == Decay::inverse_sqrt) return config.rate * std::sqrt(warmup / at);
  const double done = std::min(1.0, (at - warmup) / (static_cast<double>(steps) - warmup));
  return config.rate * (1 + cos(std::numbers::pi * done)) / 2;
}

}  // namespace qkv
