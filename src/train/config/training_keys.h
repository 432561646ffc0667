// The keys of "training" in every config: for the loop, Adam and the loss.
#pragma once

#include <iterator>

#include "qkv/train/training.h"
#include "train/config/config_keys.h"

namespace qkv::training {

// Keys of "model", for where a config lists them. Config: has dropout and dtype. `where`: what it drops besides.
template <class Config>
ConfigKey<Config> dropout_key(const std::string& where = ", activations and outputs of sublayers") {
  const std::string meaning = "Share of elements set to 0 during training: in embeddings, attention weights";
  return KeysOf<Config>::number({"model", "dropout", "probability", meaning + where + "."}, &Config::dropout, 1);
}
template <class Config>
ConfigKey<Config> dtype_key() {
  return KeysOf<Config>::choice({"model", "dtype", "-", "Type of the weights in the finished model."}, &Config::dtype,
                                {{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}});
}
// `longest`: what it says of the longest text.
template <class Config>
ConfigKey<Config> longest_text_key(const char* longest) {
  return KeysOf<Config>::integer({"training", "max_length", "tokens", longest}, &Config::max_length, 0, kMaxLayerSize);
}

// Config: has a TrainingConfig `training` and a label_smoothing.
template <class Config>
void add_training_keys(std::vector<ConfigKey<Config>>& keys) {
  using C = Config;
  using K = KeysOf<C>;
  std::vector<ConfigKey<Config>> own{
      K::integer(
          {"training", "steps", "updates", "Maximum number of updates of the weights; 0: limited by epochs alone."},
          path(&C::training, &TrainingConfig::steps), 0),
      K::integer({"training", "epochs", "passes",
                  "Maximum number of passes over the training data; 0: limited by steps alone."},
                 path(&C::training, &TrainingConfig::epochs), 0, kMaxEpochs),
      K::number({"training", "rate", "per update", "The highest learning rate; above 0."},
                path(&C::training, &TrainingConfig::schedule, &ScheduleConfig::rate), kUnbounded, kRequired),
      K::choice({"training", "schedule", "-", "How the learning rate falls after the warm-up."},
                path(&C::training, &TrainingConfig::schedule, &ScheduleConfig::decay),
                {{"inverse_sqrt", Decay::inverse_sqrt}, {"cosine", Decay::cosine}}),
      K::integer({"training", "warmup", "updates", "Updates in which the learning rate rises from 0 to the highest."},
                 path(&C::training, &TrainingConfig::schedule, &ScheduleConfig::warmup), 0),
      K::choice({"training", "precision", "-",
                 "Precision of the products of layers; reduced and reduced_pairs round their factors to bf16. "
                 "Weights, Adam and attention stay exact."},
                path(&C::training, &TrainingConfig::precision), {std::begin(kPrecisions), std::end(kPrecisions)}),
      K::integer({"training", "accumulate", "batches", "Batches whose gradients make one update."},
                 path(&C::training, &TrainingConfig::accumulate), 1),
      K::number({"training", "clip", "norm",
                 "Maximum norm of all gradients together, per target token or label; 0: no limit."},
                path(&C::training, &TrainingConfig::clip)),
      K::number({"training", "label_smoothing", "probability",
                 "Share of each label that is spread over all tokens, or over all classes."},
                &C::label_smoothing, 1),
      K::choice({"training", "optimizer", "-",
                 "AdamW shrinks weights by rate * weight_decay; Adam adds weight_decay * weight to their gradients."},
                path(&C::training, &TrainingConfig::adam, &AdamConfig::decay),
                {{"adam", WeightDecay::in_gradient}, {"adamw", WeightDecay::decoupled}}),
      K::number({"training", "beta1", "-", "Decay rate of Adam's running mean of gradients."},
                path(&C::training, &TrainingConfig::adam, &AdamConfig::beta1), 1),
      K::number({"training", "beta2", "-", "Decay rate of Adam's running mean of squared gradients."},
                path(&C::training, &TrainingConfig::adam, &AdamConfig::beta2), 1),
      K::number({"training", "epsilon", "-", "Added to the square root of that mean; at least 1.2e-38."},
                path(&C::training, &TrainingConfig::adam, &AdamConfig::epsilon)),
      K::number({"training", "weight_decay", "-", "Strength of weight decay; see optimizer."},
                path(&C::training, &TrainingConfig::adam, &AdamConfig::weight_decay)),
      K::integer({"training", "seed", "-", "Seed of every random draw: weights, order of the examples, dropout."},
                 path(&C::training, &TrainingConfig::seed), 0),
      K::integer({"training", "log_every", "updates", "Updates between two lines of log.jsonl."},
                 path(&C::training, &TrainingConfig::log_every), 1),
      K::integer({"training", "validate_every", "updates",
                  "Updates between two validations, each with a checkpoint; the last update is always validated."},
                 path(&C::training, &TrainingConfig::validate_every), 1),
      K::number({"training", "checkpoint_minutes", "minutes",
                 "Also write a checkpoint after this time without one; 0: only at validations."},
                path(&C::training, &TrainingConfig::checkpoint_minutes)),
      K::integer({"training", "patience", "validations",
                  "Stop after this many validations in a row without a better "
                  "loss; 0: never."},
                 path(&C::training, &TrainingConfig::patience), 0),
      K::integer({"training", "average", "checkpoints",
                  "Average this many checkpoints, up to the best one; the mean is the result if it validates "
                  "better than the best."},
                 path(&C::training, &TrainingConfig::average), 1),
  };
  keys.insert(keys.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
}

// Checks "training" after the keys above are read.
inline void expect_end(const io::JsonValue& training, const TrainingConfig& config) {
  if (config.steps == 0 && config.epochs == 0) training.refuse("must have steps or epochs above 0");
}

// check(root, config): what needs more than one key, and what follows from others.
template <class Config, class Check>
Config read_config(const std::string& path, const KeyTable<Config>& table, const Check& check) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  Config config;
  read_keys(root, table.keys, config);
  check(root, config);
  expect_end(root["training"], config.training);
  return config;
}

}  // namespace qkv::training
