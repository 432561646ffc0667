#include "train/train_config.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "io/json_document.h"
#include "layers/check_size.h"
#include "qkv/files.h"

namespace qkv::training {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

// A section of the file, which notes what was asked for: any other key is one that nobody knows.
class Section {
 public:
  explicit Section(const io::JsonValue& value) : value_(value) {}

  io::JsonValue need(const std::string& key) {
    known_.insert(key);
    return value_[key];
  }
  std::optional<io::JsonValue> find(const std::string& key) {
    known_.insert(key);
    return value_.find(key);
  }
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) {
    return need(key).integer(least, most);
  }
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most, std::int64_t otherwise) {
    const auto value = find(key);
    return value ? value->integer(least, most) : otherwise;
  }
  // In [0, below), or any number of 0 or more.
  double number(const std::string& key, double otherwise, double below = 0) {
    const auto value = find(key);
    if (!value) return otherwise;
    const double number = value->number();
    if (!(number >= 0)) value->refuse("must be 0 or more");
    if (below > 0 && !(number < below)) value->refuse(fmt::format("must be below {}", below));
    return number;
  }
  template <class Choice>
  Choice choice(const std::string& key, const std::vector<std::pair<std::string, Choice>>& choices, Choice otherwise) {
    const auto value = find(key);
    if (!value) return otherwise;
    std::string names;
    for (const auto& [name, choice] : choices) {
      if (value->string() == name) return choice;
      names += (names.empty() ? "" : ", ") + name;
    }
    value->refuse("must be one of " + names);
  }
  void expect_no_others() const {
    value_.for_each_member([&](const std::string& key, const io::JsonValue& member) {
      if (known_.contains(key)) return;
      std::string names;
      for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
      member.refuse("is not known; known are " + names);
    });
  }

 private:
  io::JsonValue value_;
  std::set<std::string> known_;
};

void read_model(Section section, TrainConfig& config) {
  const auto size = [&](const char* key) { return section.integer(key, 1, kMaxLayerSize); };
  MarianConfig& model = config.model;
  model.model_dim = size("model_dim");
  const io::JsonValue heads = section.need("heads");
  model.encoder_heads = model.decoder_heads = heads.integer(1, kMaxLayerSize);
  if (model.model_dim % model.encoder_heads != 0) {
    heads.refuse(fmt::format("is {}, must divide model_dim, {}", model.encoder_heads, model.model_dim));
  }
  model.encoder_ff_dim = model.decoder_ff_dim = size("ff_dim");
  model.encoder_layers = section.integer("encoder_layers", 1, kMaxLayers);
  model.decoder_layers = section.integer("decoder_layers", 1, kMaxLayers);
  model.activation = section.choice<Activation>(
      "activation", {{"relu", Activation::relu}, {"gelu", Activation::gelu}, {"silu", Activation::silu}},
      Activation::relu);
  model.positions = section.integer("positions", 2, kMaxLayerSize, 512);
  config.dropout = section.number("dropout", 0, 1);
  config.dtype =
      section.choice<Dtype>("dtype", {{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}, Dtype::f32);
  section.expect_no_others();
}

void read_training(Section section, TrainConfig& config) {
  TrainingConfig& training = config.training;
  const auto count = [&](const char* key, std::int64_t least, std::int64_t otherwise) {
    return section.integer(key, least, kMaxCount, otherwise);
  };
  training.seed = static_cast<std::uint64_t>(count("seed", 0, 1));
  training.steps = section.integer("steps", 1, kMaxCount);
  training.batch_tokens = count("batch_tokens", 1, training.batch_tokens);
  training.accumulate = count("accumulate", 1, training.accumulate);
  training.log_every = count("log_every", 1, training.log_every);
  training.validate_every = count("validate_every", 1, training.validate_every);
  training.patience = count("patience", 0, training.patience);
  training.average = count("average", 1, training.average);
  training.clip = section.number("clip", training.clip);
  training.adam.beta1 = section.number("beta1", training.adam.beta1, 1);
  training.adam.beta2 = section.number("beta2", training.adam.beta2, 1);
  training.adam.epsilon = section.number("epsilon", training.adam.epsilon);
  training.adam.weight_decay = section.number("weight_decay", training.adam.weight_decay);
  training.adam.decay = section.choice<WeightDecay>(
      "optimizer", {{"adam", WeightDecay::in_gradient}, {"adamw", WeightDecay::decoupled}}, training.adam.decay);
  section.need("rate");
  training.schedule.rate = section.number("rate", 0);
  training.schedule.warmup = count("warmup", 0, training.schedule.warmup);
  training.schedule.decay = section.choice<Decay>(
      "schedule", {{"inverse_sqrt", Decay::inverse_sqrt}, {"cosine", Decay::cosine}}, training.schedule.decay);
  config.max_length = section.integer("max_length", 2, config.model.positions, config.model.positions);
  config.long_pairs = section.choice<LongPairs>(
      "long_pairs", {{"leave_out", LongPairs::leave_out}, {"truncate", LongPairs::truncate}}, LongPairs::leave_out);
  config.label_smoothing = section.number("label_smoothing", 0, 1);
  section.expect_no_others();
}

}  // namespace

TrainConfig read_train_config(const std::string& path) {
  const io::JsonDocument document(read_file(path, kMaxConfigBytes), path);
  Section root(document.root());
  TrainConfig config;
  read_model(Section(root.need("model")), config);
  Section tokenizer(root.need("tokenizer"));
  config.vocab = tokenizer.integer("vocab", 1, kMaxLayerSize);
  tokenizer.expect_no_others();
  read_training(Section(root.need("training")), config);
  root.expect_no_others();
  return config;
}

}  // namespace qkv::training
