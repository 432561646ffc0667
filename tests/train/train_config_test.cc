// Configs of trainings: values, defaults, a refusal for each rule; and the table of keys, which the documentation has.
#include "train/train_config.h"

#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "train/train_keys.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using training::read_train_config;
using training::train_keys;
using training::TrainConfig;
using training::TrainKey;

const std::string kSmallest =
    R"({"model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2},
 "tokenizer": {"vocab": 300}, "training": {"steps": 500, "rate": 0.25}})";

std::string with(const std::string& from, const std::string& to) { return test::edited(kSmallest, from, to); }

TrainConfig read_text(const std::string& text) {
  const test::TemporaryFolder folder;
  return read_train_config(folder.put("c", text));
}

TEST(TrainConfig, ReadsTheSmallest) {
  const TrainConfig config = read_text(kSmallest);
  EXPECT_TRUE(config.model == (MarianConfig{.positions = 512,
                                            .model_dim = 8,
                                            .encoder_layers = 1,
                                            .decoder_layers = 2,
                                            .encoder_heads = 2,
                                            .decoder_heads = 2,
                                            .encoder_ff_dim = 16,
                                            .decoder_ff_dim = 16}));
  EXPECT_EQ(config.vocab, 300);
  EXPECT_EQ(config.training.steps, 500);
  EXPECT_EQ(config.training.schedule.rate, 0.25);
  EXPECT_EQ(read_text(with("\"steps\": 500", "\"epochs\": 3")).training.epochs, 3);
}

TEST(TrainConfig, ReadsEveryKey) {
  const TrainConfig config = read_text(R"({
 "model": {"model_dim": 8, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 2, "activation": "silu",
           "positions": 40, "encoder_heads": 4, "decoder_heads": 1, "encoder_ff_dim": 5, "decoder_ff_dim": 6,
           "kind": "bart", "norm_order": "pre", "normalization": "rms", "position_kind": "rotary", "dropout": 0.5,
           "dtype": "f16"},
 "tokenizer": {"vocab": 300, "vocabularies": "separate"},
 "training": {"seed": 9, "steps": 10, "batch_tokens": 11, "accumulate": 12, "log_every": 13, "validate_every": 14,
              "patience": 15, "average": 16, "warmup": 17, "epochs": 18, "max_length": 30,
              "checkpoint_minutes": 0.5, "clip": 0.125, "beta1": 0.25, "beta2": 0.75, "epsilon": 0.0625,
              "weight_decay": 2, "rate": 3, "label_smoothing": 0.375,
              "optimizer": "adamw", "schedule": "cosine", "long_pairs": "truncate"}
})");
  EXPECT_TRUE(config.model == (MarianConfig{.kind = MarianKind::bart,
                                            .positions = 40,
                                            .model_dim = 8,
                                            .encoder_layers = 1,
                                            .decoder_layers = 2,
                                            .encoder_heads = 4,
                                            .decoder_heads = 1,
                                            .encoder_ff_dim = 5,
                                            .decoder_ff_dim = 6,
                                            .activation = Activation::silu,
                                            .norm_order = NormOrder::pre,
                                            .normalization = Normalization::rms,
                                            .position_kind = MarianPositions::rotary}));
  const TrainingConfig& t = config.training;
  EXPECT_EQ(t.seed, 9u);
  EXPECT_EQ((std::vector<std::int64_t>{t.steps, t.batch_tokens, t.accumulate, t.log_every, t.validate_every, t.patience,
                                       t.average, t.schedule.warmup, t.epochs, config.max_length}),
            (std::vector<std::int64_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 30}));
  EXPECT_EQ((std::vector<double>{t.checkpoint_minutes, t.clip, t.adam.beta1, t.adam.beta2, t.adam.epsilon,
                                 t.adam.weight_decay, t.schedule.rate, config.label_smoothing, config.dropout}),
            (std::vector<double>{0.5, 0.125, 0.25, 0.75, 0.0625, 2, 3, 0.375, 0.5}));
  EXPECT_EQ(t.adam.decay, WeightDecay::decoupled);
  EXPECT_EQ(t.schedule.decay, Decay::cosine);
  EXPECT_EQ(config.long_pairs, training::LongPairs::truncate);
  EXPECT_EQ(config.vocabularies, training::Vocabularies::separate);
  EXPECT_EQ(config.dtype, Dtype::f16);
}

TEST(TrainConfig, ReadsThoseThatAreShipped) {
  EXPECT_EQ(read_train_config(QKV_SOURCE_DIR "/configs/en-es.json").model.model_dim, 256);
}

TEST(TrainConfig, RefusesTheRest) {
  // A recurrent translator.
  const auto recurrent = [](const std::string& keys) {
    return R"({"model": {"model_dim": 15, )" + keys +
           R"(}, "tokenizer": {"vocab": 300}, "training": {"steps": 1, "rate": 1}})";
  };
  const auto plus = [](const std::string& keys) { return with("\"rate\": 0.25", "\"rate\": 1, " + keys); };
  test::expect_refused(
      {{with("\"steps\"", "\"step\": 1, \"steps\""), "training.step is unknown; known are accumulate, average"},
       {with("\"ff_dim\"", "\"dropuot\": 0, \"ff_dim\""), "model.dropuot is unknown"},
       {with("\"vocab\"", "\"size\": 1, \"vocab\""), "tokenizer.size is unknown; known are vocab"},
       {with("{\"model\"", "{\"data\": {}, \"model\""), "data is unknown; known are model, tokenizer, training"},
       {with("\"rate\": 0.25", "\"seed\": 1"), "training.rate is missing"},
       {with("\"rate\": 0.25", "\"rate\": -1"), "training.rate must be 0 or more"},
       {plus("\"beta1\": 1"), "training.beta1 must be below 1"},
       {plus("\"optimizer\": \"sgd\""), "training.optimizer must be one of adam, adamw"},
       {plus("\"max_length\": 513"), "training.max_length is 513"},
       {plus("\"max_length\": 1"), "training.max_length is 1"},
       {plus("\"long_pairs\": \"cut\""), "training.long_pairs must be one of leave_out, truncate"},
       {with("\"heads\": 2", "\"heads\": 3"), "model.heads is 3, must divide model_dim, 8"},
       {with("\"heads\": 2", "\"heads\": 2, \"encoder_heads\": 3"),
        "model.encoder_heads is 3, must divide model_dim, 8"},
       {with("\"heads\": 2", "\"heads\": 8, \"position_kind\": \"rotary\""),
        "model.heads is 8: rotary positions need an even"},
       {with("\"heads\": 2", "\"heads\": 2, \"kind\": \"t5\""), "model.kind must be one of marian, bart"},
       {recurrent("\"attention\": \"multiplied\""), "model.attention must be one of fixed, additive, dot, bilinear"},
       {recurrent("\"attention\": \"dot\", \"cell\": \"rnn\""),
        "model.cell must be one of rnn_tanh, rnn_relu, lstm, gru, gru_reset_first"},
       {recurrent("\"attention\": \"dot\", \"directions\": 2"),
        "model.model_dim must be even: the encoder has two directions"},
       {recurrent("\"attention\": \"dot\", \"heads\": 2"), "model.heads is unknown; known are attention, cell"},
       {with("\"steps\": 500", "\"steps\": 0"), "training must have steps or epochs above 0"},
       {with("\"steps\": 500", "\"seed\": 0"), "training must have steps or epochs above 0"},
       {with("\"model_dim\": 8", "\"model_dim\": \"8\""), "model.model_dim must be an integer"}},
      "config", [](const std::string& path) { read_train_config(path); });
}

TEST(TrainKeys, AreThoseOfTheDocumentation) {
  const std::string page = test::slurp(QKV_SOURCE_DIR "/docs/training.md");
  test::expect_contains(page, "<!-- keys -->\n" + training::train_keys_markdown() + "<!-- end of keys -->");
  test::expect_contains(page, "<!-- keys of a recurrent translator -->\n" + training::seq2seq_keys_markdown() +
                                  "<!-- end of keys of a recurrent");
}

TEST(TrainKeys, AreInTheHelp) {
  for (const TrainKey& key : train_keys()) test::expect_contains(training::train_keys_text(), "\n  " + key.name + " ");
}

}  // namespace
}  // namespace qkv
