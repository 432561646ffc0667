// Configs of trainings: values, defaults, and a refusal for each rule.
#include "train/train_config.h"

#include <gtest/gtest.h>

#include "io/files_for_test.h"

namespace qkv {
namespace {

using training::read_train_config;
using training::TrainConfig;

const std::string kSmallest =
    R"({"model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2},
 "tokenizer": {"vocab": 300}, "training": {"steps": 500, "rate": 0.25}})";

std::string with(const std::string& from, const std::string& to) {
  std::string changed = kSmallest;
  const std::size_t begin = changed.find(from);
  EXPECT_NE(begin, std::string::npos) << from;
  return changed.replace(begin, from.size(), to);
}

TEST(TrainConfig, ReadsTheSmallest) {
  const test::TemporaryFolder folder;
  const TrainConfig config = read_train_config(folder.put("c", kSmallest));
  EXPECT_EQ(config.model.model_dim, 8);
  EXPECT_EQ(config.model.encoder_heads, 2);
  EXPECT_EQ(config.model.decoder_heads, 2);
  EXPECT_EQ(config.model.decoder_ff_dim, 16);
  EXPECT_EQ(config.model.encoder_layers, 1);
  EXPECT_EQ(config.model.decoder_layers, 2);
  EXPECT_EQ(config.vocab, 300);
  EXPECT_EQ(config.training.steps, 500);
  EXPECT_EQ(config.training.schedule.rate, 0.25);
  EXPECT_EQ(config.training.batch_tokens, TrainingConfig().batch_tokens);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.dtype, Dtype::f32);
  EXPECT_EQ(config.max_length, 512);
  EXPECT_EQ(config.long_pairs, training::LongPairs::leave_out);
}

TEST(TrainConfig, ReadsEveryKey) {
  const test::TemporaryFolder folder;
  const TrainConfig config = read_train_config(folder.put("c", R"({
 "model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2, "activation": "silu",
           "positions": 40, "dropout": 0.5, "dtype": "f16"},
 "tokenizer": {"vocab": 300},
 "training": {"seed": 9, "steps": 500, "batch_tokens": 11, "accumulate": 12, "log_every": 13, "validate_every": 14,
              "patience": 15, "average": 16, "epochs": 18, "checkpoint_minutes": 0.5, "clip": 0.125, "optimizer": "adamw", "beta1": 0.25, "beta2": 0.75,
              "epsilon": 0.5, "weight_decay": 2, "rate": 3, "schedule": "cosine", "warmup": 17, "label_smoothing": 0.375,
              "max_length": 30, "long_pairs": "truncate"}
})"));
  EXPECT_EQ(config.model.activation, Activation::silu);
  EXPECT_EQ(config.model.positions, 40);
  EXPECT_EQ(config.dropout, 0.5);
  EXPECT_EQ(config.dtype, Dtype::f16);
  EXPECT_EQ(config.label_smoothing, 0.375);
  EXPECT_EQ(config.max_length, 30);
  EXPECT_EQ(config.long_pairs, training::LongPairs::truncate);
  const TrainingConfig& training = config.training;
  EXPECT_EQ(training.seed, 9u);
  EXPECT_EQ(training.batch_tokens, 11);
  EXPECT_EQ(training.accumulate, 12);
  EXPECT_EQ(training.log_every, 13);
  EXPECT_EQ(training.validate_every, 14);
  EXPECT_EQ(training.patience, 15);
  EXPECT_EQ(training.average, 16);
  EXPECT_EQ(training.epochs, 18);
  EXPECT_EQ(training.checkpoint_minutes, 0.5);
  EXPECT_EQ(training.clip, 0.125);
  EXPECT_EQ(training.adam.decay, WeightDecay::decoupled);
  EXPECT_EQ(training.adam.beta1, 0.25);
  EXPECT_EQ(training.adam.beta2, 0.75);
  EXPECT_EQ(training.adam.epsilon, 0.5);
  EXPECT_EQ(training.adam.weight_decay, 2);
  EXPECT_EQ(training.schedule.rate, 3);
  EXPECT_EQ(training.schedule.decay, Decay::cosine);
  EXPECT_EQ(training.schedule.warmup, 17);
}

TEST(TrainConfig, EpochsMayStandForSteps) {
  const test::TemporaryFolder folder;
  const TrainConfig config = read_train_config(folder.put("c", with("\"steps\": 500", "\"epochs\": 3")));
  EXPECT_EQ(config.training.steps, 0);
  EXPECT_EQ(config.training.epochs, 3);
}

TEST(TrainConfig, ReadsThoseThatAreShipped) {
  EXPECT_EQ(read_train_config(QKV_SOURCE_DIR "/configs/en-es.json").model.model_dim, 256);
}

TEST(TrainConfig, RefusesTheRest) {
  test::expect_refused(
      {{with("\"steps\"", "\"step\": 1, \"steps\""), "training.step is unknown; known are accumulate, average"},
       {with("\"ff_dim\"", "\"dropuot\": 0, \"ff_dim\""), "model.dropuot is unknown"},
       {with("\"vocab\"", "\"size\": 1, \"vocab\""), "tokenizer.size is unknown; known are vocab"},
       {with("{\"model\"", "{\"data\": {}, \"model\""), "data is unknown; known are model, tokenizer, training"},
       {with("\"rate\": 0.25", "\"seed\": 1"), "training.rate is missing"},
       {with("\"rate\": 0.25", "\"rate\": -1"), "training.rate must be 0 or more"},
       {with("\"rate\": 0.25", "\"rate\": 1, \"beta1\": 1"), "training.beta1 must be below 1"},
       {with("\"rate\": 0.25", "\"rate\": 1, \"optimizer\": \"sgd\""), "training.optimizer must be one of adam, adamw"},
       {with("\"rate\": 0.25", "\"rate\": 1, \"max_length\": 513"), "training.max_length is 513"},
       {with("\"rate\": 0.25", "\"rate\": 1, \"max_length\": 1"), "training.max_length is 1"},
       {with("\"rate\": 0.25", "\"rate\": 1, \"long_pairs\": \"cut\""),
        "training.long_pairs must be one of leave_out, truncate"},
       {with("\"heads\": 2", "\"heads\": 3"), "model.heads is 3, must divide model_dim, 8"},
       {with("\"steps\": 500", "\"steps\": 0"), "training must have steps or epochs above 0"},
       {with("\"steps\": 500", "\"seed\": 0"), "training must have steps or epochs above 0"},
       {with("\"model_dim\": 8", "\"model_dim\": \"8\""), "model.model_dim must be an integer"}},
      "config", [](const std::string& path) { read_train_config(path); });
}

}  // namespace
}  // namespace qkv
