// A training as a file: configs/*.json.
//
//   {
//     "model": {"model_dim": 256, "heads": 4, "ff_dim": 1024, "encoder_layers": 3, "decoder_layers": 3,
//               "activation": "relu", "positions": 256, "dropout": 0.1, "dtype": "f16"},
//     "tokenizer": {"vocab": 8000},
//     "training": {"steps": 20000, "rate": 0.001, "schedule": "inverse_sqrt", "warmup": 1000, ...}
//   }
//
// Its keys are in train_config.cc, and in docs/training.md; others are refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"
#include "train/config/trained_model.h"

namespace qkv::training {

enum class LongPairs { leave_out, truncate };
enum class Vocabularies { shared, separate };  // of source and target

struct TrainConfig {
  // Without what the tokenizer decides: vocab, end, padding, start.
  std::shared_ptr<TrainedModel> model = std::make_shared<TrainedModelOf<TransformerEncoderDecoder>>();
  std::int64_t heads = 0, ff_dim = 0;  // of a side that names none of its own
  std::int64_t vocab = 0;              // of a tokenizer that is yet to be trained
  Vocabularies vocabularies = Vocabularies::shared;
  TrainingConfig training{};
  std::int64_t max_length = 0;  // tokens of a side; at most positions()
  LongPairs long_pairs = LongPairs::leave_out;
  Dtype dtype = Dtype::f32;  // of the weights of the finished model
  double dropout = 0;
  double label_smoothing = 0;
};

// The model's config as that of `Model`, which it becomes where it was another.
template <class Model>
auto& model_config(TrainConfig& config) {
  auto own = std::dynamic_pointer_cast<TrainedModelOf<Model>>(config.model);
  if (own == nullptr) config.model = own = std::make_shared<TrainedModelOf<Model>>();
  return own->config;
}

// FormatError, naming the file, the field and the rule.
TrainConfig read_train_config(const std::string& path);

// Every key of a translator's training, once: the reader, `qkv train --help` and docs/training.md go by this table.
using TrainKey = ConfigKey<TrainConfig>;

// In the order of the sections, and of importance.
const std::vector<TrainKey>& train_keys();

// Those of every family: of "model", "tokenizer" and "training".
void add_common_keys(std::vector<TrainKey>& keys);

// A family of models that the library does not hold.
struct TrainedFamily {
  const char* key;                                                   // what "model" of its configs has, and no other's
  const char* name;                                                  // "recurrent translator"
  const std::vector<TrainKey>& (*keys)();                            // its own ones, then add_common_keys()
  void (*complete)(const io::JsonValue& root, TrainConfig& config);  // checks what needs more than one key
};

// Once for a family. Not while another thread trains.
void add_trained_family(const TrainedFamily& family);

// The table as text for a terminal, and as a table of Markdown.
std::string train_keys_text();
std::string train_keys_markdown();
// Those that a family alone has.
std::string own_keys_markdown(const TrainedFamily& family);

}  // namespace qkv::training
