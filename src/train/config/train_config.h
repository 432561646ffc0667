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

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

// The model that a translator's config trains, of any family.
class TrainedModel {
 public:
  virtual ~TrainedModel() = default;

  virtual std::int64_t positions() const = 0;
  virtual void set_tokens(const EncoderDecoderTokens& tokens) = 0;  // but for the positions, which the config says
  virtual std::unique_ptr<EncoderDecoder> initial(std::uint64_t seed, WeightStorage storage) const = 0;
  // nullptr: of another config
  virtual std::unique_ptr<EncoderDecoder> load(const std::string& folder, WeightStorage storage) const = 0;
  virtual const char* own_type() const = 0;                         // model_type where no class of transformers fits
  virtual std::map<std::string, std::string> identity() const = 0;  // every member of the config by name
};

// identity() and own_type() are written for each Model.
template <class Model>
class TrainedModelOf : public TrainedModel {
 public:
  using Config = std::remove_cvref_t<decltype(std::declval<const Model&>().config())>;

  std::int64_t positions() const override { return config.positions; }
  void set_tokens(const EncoderDecoderTokens& tokens) override {
    config.vocab = tokens.vocab;
    config.target_vocab = tokens.target_vocab;
    config.end = tokens.end;
    config.padding = tokens.padding;
    config.start = tokens.start;
  }
  std::unique_ptr<EncoderDecoder> initial(std::uint64_t seed, WeightStorage storage) const override {
    return std::make_unique<Model>(Model::initial(config, seed, storage));
  }
  std::unique_ptr<EncoderDecoder> load(const std::string& folder, WeightStorage storage) const override {
    auto model = std::make_unique<Model>(Model::load(folder, storage));
    return model->config() == config ? std::move(model) : nullptr;
  }
  const char* own_type() const override;
  std::map<std::string, std::string> identity() const override;

  Config config{.positions = 512};
};

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

// Where the value of a key is that is a member of that.
template <class Model, class Member>
auto model_field(Member member) {
  return [member](TrainConfig& config) -> auto& { return model_config<Model>(config).*member; };
}

// FormatError, naming the file, the field and the rule.
TrainConfig read_train_config(const std::string& path);

// Every key of a translator's training, once: the reader, `qkv train --help` and docs/training.md go by this table.
using TrainKey = ConfigKey<TrainConfig>;

// In the order of the sections, and of importance.
const std::vector<TrainKey>& train_keys();

// Keys of every family: of "model", "tokenizer" and "training".
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
// Keys of only one family.
std::string own_keys_markdown(const TrainedFamily& family);

}  // namespace qkv::training
