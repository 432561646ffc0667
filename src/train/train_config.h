// A training as a file: configs/*.json.
//
//   {
//     "model": {"model_dim": 256, "heads": 4, "ff_dim": 1024, "encoder_layers": 3, "decoder_layers": 3,
//               "activation": "relu", "positions": 256, "dropout": 0.1, "dtype": "f16"},
//     "tokenizer": {"vocab": 8000},
//     "training": {"steps": 20000, "rate": 0.001, "schedule": "inverse_sqrt", "warmup": 1000, ...}
//   }
//
// Keys that nobody knows are refused. The keys of "training" are the members of TrainingConfig (training.h), with those
// of its Adam and schedule beside them, "optimizer" ("adam" or "adamw"), "label_smoothing", "max_length" (tokens that a
// side of a pair may have, its end token among them; as many as there are positions) and "long_pairs" (what becomes of
// longer ones: "leave_out" or "truncate", which keeps their beginning and the end token; leave_out). Without a default
// are those of "model" but for activation, positions, dropout and dtype ("f32", "bf16" or "f16": how the finished model
// is written; f32), and vocab, steps and rate.
#pragma once

#include <string>

#include "qkv/marian.h"
#include "qkv/training.h"

namespace qkv::training {

enum class LongPairs { leave_out, truncate };

struct TrainConfig {
  MarianConfig model{};    // without what the tokenizer decides: vocab, end, padding, start
  std::int64_t vocab = 0;  // of a tokenizer that is yet to be trained
  TrainingConfig training{};
  std::int64_t max_length = 0;  // tokens of a side; at most model.positions
  LongPairs long_pairs = LongPairs::leave_out;
  Dtype dtype = Dtype::f32;  // of the weights of the finished model
  double dropout = 0;
  double label_smoothing = 0;
};

// FormatError, naming the file, the field and the rule.
TrainConfig read_train_config(const std::string& path);

}  // namespace qkv::training
