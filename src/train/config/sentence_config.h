// The training of an encoder on pairs that belong together, as a file: configs/contrast.json.
//
//   {"kind": "contrast", "training": {"epochs": 1, "rate": 2e-5, "batch": 64, "chunk": 32, "max_length": 128}}
//
// Its keys are in sentence_config.cc, and in docs/training.md; others are refused.
#pragma once

#include <string>

#include "qkv/dtype.h"
#include "qkv/models/sentence_encoder.h"
#include "qkv/train/train_files.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

struct SentenceConfig {
  TrainedKind kind = TrainedKind::contrast;
  SentencePooling pooling = SentencePooling::mean;
  TrainingConfig training{.batch_tokens = 64};
  std::int64_t chunk = 32;
  double temperature = 0.05;
  std::int64_t max_length = 0;  // tokens of a text, special ones included; 0: all positions
  Dtype dtype = Dtype::f32;     // of the weights of the finished model
  double dropout = 0.1;
  double label_smoothing = 0;
};

const KeyTable<SentenceConfig>& sentence_keys();

// FormatError, naming the file, the field and the rule.
SentenceConfig read_sentence_config(const std::string& path);

}  // namespace qkv::training
