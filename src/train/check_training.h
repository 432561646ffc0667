// What train() refuses before anything is changed.
#pragma once

#include "qkv/train/training.h"

namespace qkv::training {

// std::invalid_argument if the config is invalid or the data is empty.
void check(const TrainingConfig& config, const TrainingTask& task);

}  // namespace qkv::training
