// The training of a classifier of pictures as a file: configs/digits.json.
//
//   {
//     "model": {"picture": 28, "patch": 7, "model_dim": 64, "heads": 4, "ff_dim": 128, "layers": 3},
//     "pictures": {"shift": 2},
//     "training": {"epochs": 4, "rate": 0.002, "batch": 64}
//   }
//
// Its keys are in classifier_config.cc, and in docs/training.md; others are refused.
#pragma once

#include <string>

#include "qkv/models/vit.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

struct ClassifierConfig {
  VitConfig model{.epsilon = 1e-6};  // without labels
  std::int64_t picture = 0;          // pixels of each side
  std::int64_t patch = 0;
  std::int64_t largest = 255;
  std::int64_t shift = 0;
  TrainingConfig training{.batch_tokens = 64};
  Dtype dtype = Dtype::f32;  // of the weights of the finished model
  double dropout = 0;
  double label_smoothing = 0;
};

const KeyTable<ClassifierConfig>& classifier_keys();

// FormatError, naming the file, the field and the rule.
ClassifierConfig read_classifier_config(const std::string& path);

}  // namespace qkv::training
