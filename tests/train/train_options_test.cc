// Every option of a model that a config can ask for: it trains, goes on after an interruption with the same bits, and
// its folder opens again and translates.
#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/models/marian.h"
#include "qkv/models/translator.h"
#include "qkv/random.h"
#include "qkv/train/train_translator.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

const std::vector<std::vector<std::string>>& choices() {
  static const std::vector<std::vector<std::string>> all = {
      {"", "\"kind\": \"bart\","},
      {"", "\"norm_order\": \"pre\","},
      {"", "\"normalization\": \"rms\","},
      {"", "\"position_kind\": \"rotary\","},
      {"", "\"activation\": \"gelu\",", "\"activation\": \"silu\","},
      {"", "\"encoder_heads\": 4, \"decoder_ff_dim\": 24,", "\"decoder_heads\": 1, \"encoder_ff_dim\": 40,"},
      {"", "separate"},
  };
  return all;
}

std::string config_with(const std::vector<std::string>& chosen) {
  std::string config = test::kTinyConfig;
  for (const std::string& keys : chosen) {
    if (keys == "separate") {
      config.insert(config.find("\"vocab\""), "\"vocabularies\": \"separate\", ");
    } else {
      config.insert(config.find("\"dropout\""), keys);
    }
  }
  config.replace(config.find("\"steps\": 30"), 11, "\"steps\": 8");
  return config.replace(config.find("\"validate_every\": 10"), 20, "\"validate_every\": 4");
}

void expect_trains(const std::vector<std::string>& chosen) {
  const std::string config = config_with(chosen);
  SCOPED_TRACE(config);
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.config = folder.put("config.json", config);
  test::Watcher never;
  train_translator(files, {.observer = &never});

  const Translator translator = Translator::load(files.out);
  const MarianConfig& model = dynamic_cast<const Marian&>(translator.model()).config();
  const std::string type = "\"model_type\": \"qkv\"";
  const bool own = test::slurp(files.out + "/config.json").find(type) != std::string::npos;
  EXPECT_EQ(own, Marian::class_of(model).empty());
  EXPECT_EQ(own, std::any_of(never.notices.begin(), never.notices.end(), [](const std::string& text) {
              return text.find("no class of transformers fits this model") != std::string::npos;
            }));
  const bool separate = std::find(chosen.begin(), chosen.end(), "separate") != chosen.end();
  EXPECT_EQ(model.target_vocab > 0, separate);
  EXPECT_EQ(std::filesystem::exists(files.out + "/target_tokenizer.json"), separate);
  const Translation before = translator.translate("one two three");
  EXPECT_LT(before.score, 0);

  const std::string whole = test::slurp(files.out + "/model.safetensors");
  files.out = folder / "interrupted";
  EXPECT_THROW(train_translator(files, test::Stopper(5).options()), Stopped);
  train_translator(files);
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), whole);
  EXPECT_EQ(Translator::load(files.out).translate("one two three").ids, before.ids);
}

TEST(TrainOptions, EachTrains) {
  for (std::size_t i = 0; i < choices().size(); ++i) {
    for (std::size_t j = 1; j < choices()[i].size(); ++j) expect_trains({choices()[i][j]});
  }
}

TEST(TrainOptions, SomeTogetherTrain) {
  Random random(5);
  for (int run = 0; run < 8; ++run) {
    std::vector<std::string> chosen;
    for (const auto& options : choices()) chosen.push_back(options[random.below(options.size())]);
    expect_trains(chosen);
  }
}

TEST(TrainOptions, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& keys) {
    const test::TemporaryFolder folder;
    TrainTranslatorFiles files = test::tiny_training(folder);
    files.config = folder.put("config.json", config_with({keys}));
    return test::message_of<FormatError>([&] { train_translator(files); });
  };
  EXPECT_NE(refused("\"encoder_heads\": 3,").find("model.encoder_heads is 3, must divide model_dim, 16"),
            std::string::npos);
  EXPECT_NE(refused("\"decoder_heads\": 16, \"position_kind\": \"rotary\",").find("model.decoder_heads is 16: rotary"),
            std::string::npos);
  EXPECT_NE(refused("\"kind\": \"t5\",").find("model.kind must be one of marian, bart"), std::string::npos);
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  files.target_tokenizer = files.config;
  EXPECT_NE(test::message_of<std::invalid_argument>([&] {
              train_translator(files);
            }).find("set tokenizer.vocabularies to \"separate\""),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
