// A training as a file: configs/*.json.
//
//   {
//     "model": {"model_dim": 256, "heads": 4, "ff_dim": 1024, "encoder_layers": 3, "decoder_layers": 3,
//               "activation": "relu", "positions": 256, "dropout": 0.1, "dtype": "f16"},
//     "tokenizer": {"vocab": 8000},
//     "training": {"steps": 20000, "rate": 0.001, "schedule": "inverse_sqrt", "warmup": 1000, ...}
//   }
//
// Its keys are in train_config.cc, and in docs/training.md; others are refused. A "model" with "attention" is a
// recurrent encoder-decoder, with keys of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/models/marian.h"
#include "qkv/models/seq2seq.h"
#include "qkv/train/training.h"
#include "train/config_keys.h"

namespace qkv::training {

enum class LongPairs { leave_out, truncate };
enum class Vocabularies { shared, separate };  // of source and target

struct TrainConfig {
  // Without what the tokenizer decides: vocab, end, padding, start.
  MarianConfig model{.positions = 512};
  std::optional<Seq2SeqConfig> seq2seq{};  // the model instead, where "model" has "attention"
  std::int64_t heads = 0, ff_dim = 0;      // of a side that names none of its own
  std::int64_t vocab = 0;                  // of a tokenizer that is yet to be trained
  Vocabularies vocabularies = Vocabularies::shared;
  TrainingConfig training{};
  std::int64_t max_length = 0;  // tokens of a side; at most positions()
  LongPairs long_pairs = LongPairs::leave_out;
  Dtype dtype = Dtype::f32;  // of the weights of the finished model
  double dropout = 0;
  double label_smoothing = 0;

  std::int64_t positions() const { return seq2seq ? seq2seq->positions : model.positions; }
};

// FormatError, naming the file, the field and the rule.
TrainConfig read_train_config(const std::string& path);

// Every key of a translator's training, once: the reader, `qkv train --help` and docs/training.md go by this table.
using TrainKey = ConfigKey<TrainConfig>;

// In the order of the sections, and of importance.
const std::vector<TrainKey>& train_keys();
// Of a config whose model has "attention": a recurrent encoder-decoder.
const std::vector<TrainKey>& seq2seq_keys();

// The table as text for a terminal, and as a table of Markdown.
std::string train_keys_text();
std::string train_keys_markdown();
// Those of "model" that only such a config has.
std::string seq2seq_keys_markdown();

}  // namespace qkv::training
