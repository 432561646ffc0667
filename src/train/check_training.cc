// Checks a training's config and data.
#include "train/check_training.h"

#include <cmath>
#include <utility>

#include "core/refuse.h"

namespace qkv::training {

void check(const TrainingConfig& config, const TrainingTask& task) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) refuse("train", "{} is {}; it must be {} or more", name, value, least);
  };
  at_least("epochs", config.epochs, 0);
  at_least("steps", config.steps, config.epochs > 0 ? 0 : 1);
  at_least("batch_tokens", config.batch_tokens, 1);
  at_least("accumulate", config.accumulate, 1);
  at_least("warmup", config.schedule.warmup, 0);
  at_least("log_every", config.log_every, 1);
  at_least("validate_every", config.validate_every, 1);
  at_least("patience", config.patience, 0);
  at_least("average", config.average, 1);
  if (!(config.schedule.rate > 0) || !std::isfinite(config.schedule.rate)) {
    refuse("train", "rate is {}; it must be above 0", config.schedule.rate);
  }
  if (!(config.clip >= 0)) {
    refuse("train", "clip is {}; it must be 0 or more", config.clip);
  }
  if (!(config.checkpoint_minutes >= 0)) {
    refuse("train", "checkpoint_minutes is {}; it must be 0 or more", config.checkpoint_minutes);
  }
  for (const auto& [name, examples] : {std::pair("train", &task.train), std::pair("valid", &task.valid)}) {
    if (examples->count() > 0) continue;
    refuse("train", "the {} data has no {}", name, examples->kind());
  }
}

}  // namespace qkv::training
