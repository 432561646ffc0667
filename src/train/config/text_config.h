// The fine-tuning of an encoder as a file: configs/classes.json.
//
//   {"kind": "classes", "training": {"epochs": 3, "rate": 5e-5, "batch": 32, "max_length": 128}}
//
// Its keys are in text_config.cc, and in docs/training.md; others are refused.
#pragma once

#include <string>

#include "qkv/dtype.h"
#include "qkv/models/text_model.h"
#include "qkv/train/train_files.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

struct TextConfig {
  TrainedKind kind = TrainedKind::classes;
  TextProblem problem = TextProblem::single_label;  // of texts and pairs
  TrainingConfig training{.batch_tokens = 32};
  std::int64_t max_length = 0;  // tokens of a text or a pair, special ones included; 0: all positions
  Dtype dtype = Dtype::f32;     // of the weights of the finished model
  double dropout = 0.1;
  double label_smoothing = 0;
};

const KeyTable<TextConfig>& text_keys();

// FormatError, naming the file, the field and the rule.
TextConfig read_text_config(const std::string& path);

}  // namespace qkv::training
