// The training of a language model as a file: configs/verses.json.
//
//   {
//     "kind": "language",
//     "model": {"model_dim": 192, "heads": 6, "ff_dim": 512, "layers": 4, "positions": 512},
//     "tokenizer": {"vocab": 4000},
//     "training": {"epochs": 12, "rate": 0.002, "long_texts": "cut"}
//   }
//
// Its keys are in language_config.cc, and in docs/training.md; others are refused.
#pragma once

#include <string>

#include "qkv/models/language_model.h"
#include "qkv/train/train_files.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

enum class LongTexts { refuse, cut };

struct LanguageConfig {
  TrainedKind kind = TrainedKind::language;
  LlamaSizes model{.positions = 512};  // without the vocabulary, which the tokenizer decides
  std::int64_t vocab = 0;              // of a tokenizer that is yet to be trained
  TrainingConfig training{};
  std::int64_t max_length = 0;  // tokens that are read together; at most positions
  LongTexts long_texts = LongTexts::refuse;
  Dtype dtype = Dtype::f32;  // of the weights of the finished model
  double dropout = 0;
  double label_smoothing = 0;
};

const KeyTable<LanguageConfig>& language_keys();

// FormatError, naming the file, the field and the rule.
LanguageConfig read_language_training(const std::string& path);

}  // namespace qkv::training
