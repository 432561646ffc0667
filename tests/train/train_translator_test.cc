// From pairs and a config to a folder that opens again.
#include "qkv/train_translator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/marian.h"
#include "qkv/tokenizer.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class Notices : public TrainingObserver {
 public:
  void receive(const TrainingProgress&) override {}
  void receive(const Validation&) override {}
  void notice(const std::string& text) override { all.push_back(text); }
  std::vector<std::string> all{};
};

TEST(TrainTranslator, WritesAFolderThatOpens) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  const TrainingResult result = train_translator(files);
  EXPECT_EQ(result.step, 30);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(files.out)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"checkpoints", "config.json", "generation_config.json", "log.jsonl", "loss.svg",
                                      "model.safetensors", "tokenizer.json", "tokenizer_config.json"}));
  const Marian model = Marian::load(files.out);
  const Tokenizer tokenizer = Tokenizer::load(files.out + "/tokenizer.json");
  EXPECT_EQ(model.config().vocab, tokenizer.vocab());
  EXPECT_EQ(model.config().end, tokenizer.id_of("</s>"));
  EXPECT_EQ(model.config().start, tokenizer.id_of("<pad>"));
  EXPECT_EQ(model.config().padding, tokenizer.vocab() - 1);
  EXPECT_NE(test::slurp(files.out + "/tokenizer_config.json").find("\"PreTrainedTokenizerFast\""), std::string::npos);
}

TEST(TrainTranslator, ASecondCallChangesNothing) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  const std::string weights = test::slurp(files.out + "/model.safetensors");
  fs::remove(files.out + "/model.safetensors");
  Notices notices;
  train_translator(files, {.observer = &notices});
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), weights);
  ASSERT_EQ(notices.all.size(), 1u);
  EXPECT_NE(notices.all[0].find("going on from"), std::string::npos);
}

TEST(TrainTranslator, TakesATokenizerThatIsGiven) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  files.tokenizer = folder.put("given.json", test::slurp(files.out + "/tokenizer.json"));
  const std::string weights = test::slurp(files.out + "/model.safetensors");
  files.out = folder / "other";
  train_translator(files);
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), weights);
  EXPECT_EQ(test::slurp(files.out + "/tokenizer.json"), test::slurp(files.tokenizer));
}

TEST(TrainTranslator, BeginsWithAModel) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  const TrainingResult first = train_translator(files);
  files.from = files.out;
  files.out = folder / "further";
  const TrainingResult second = train_translator(files);
  EXPECT_LT(second.best_loss, first.best_loss);
  EXPECT_EQ(test::slurp(files.out + "/tokenizer.json"), test::slurp(files.from + "/tokenizer.json"));

  std::string config = test::kTinyConfig;
  config.replace(config.find("\"dropout\""), 0, "\"activation\": \"gelu\", ");
  files.config = folder.put("gelu.json", config);
  files.out = folder / "gelu";
  EXPECT_THROW(train_translator(files), FormatError);
}

// The tiny config with more keys of "training".
std::string tiny_config_with(const std::string& keys) {
  std::string config = test::kTinyConfig;
  return config.insert(config.find("\"steps\""), keys);
}

TEST(TrainTranslator, LeavesOutOrTruncatesWhatIsTooLong) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  std::string long_text;  // words are never joined into one token
  for (int i = 0; i < 13; ++i) long_text += "one two ";
  const auto notice_of = [&](const std::string& out, const std::string& keys, const std::string& pairs) {
    files.config = folder.put("config.json", tiny_config_with(keys));
    files.train = folder.put("train.tsv", test::pairs_of_words(60) + pairs);
    files.out = folder / out;
    Notices notices;
    train_translator(files, {.observer = &notices});
    return notices.all.empty() ? "" : notices.all.at(0);
  };
  EXPECT_NE(
      notice_of("a", "", long_text + "\tx\n").find("1 of 61 pairs have more than 24 tokens on a side and are left out"),
      std::string::npos);
  EXPECT_NE(notice_of("b", "\"long_pairs\": \"truncate\", ", long_text + "\tx\n")
                .find("1 of 61 pairs have more than 24 tokens on a side and are truncated"),
            std::string::npos);
  EXPECT_NE(notice_of("c", "\"max_length\": 5, ", "").find("pairs have more than 5 tokens"), std::string::npos);
}

// The same training as on pairs that end where those are cut off: the end token takes the last place.
TEST(TrainTranslator, TruncatedPairsEndEarlier) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  files.tokenizer = folder.put("given.json", test::slurp(files.out + "/tokenizer.json"));
  files.config = folder.put("config.json", tiny_config_with("\"max_length\": 4, \"long_pairs\": \"truncate\", "));
  const auto weights = [&](const std::string& out, const std::string& pair) {
    files.train = folder.put("train.tsv", test::pairs_of_words(20) + pair);
    files.out = folder / out;
    train_translator(files);
    return test::slurp(files.out + "/model.safetensors");
  };
  const Tokenizer tokenizer = Tokenizer::load(files.tokenizer);
  const auto ids = tokenizer.encode("one two three four five", {.add_special_tokens = false}).ids;
  const std::string begun = tokenizer.decode(std::span(ids).first(3));
  ASSERT_EQ(tokenizer.encode(begun).ids.size(), 4u);
  EXPECT_EQ(weights("long", "one two three four five\tuno\n"), weights("short", begun + "\tuno\n"));
}

TEST(TrainTranslator, RefusesAnotherConfigInTheSameFolder) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  std::string config = test::kTinyConfig;
  config.replace(config.find("0.01"), 4, "0.02");
  files.config = folder.put("config.json", config);
  EXPECT_THROW(train_translator(files), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
