// From pairs and a config to a folder that opens again.
#include "qkv/train/train_translator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/models/marian.h"
#include "qkv/models/translator.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "train/translator_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

using test::Stopper;
using test::Watcher;

// Contents of all files below a folder by name; a lock holds nothing.
std::map<std::string, std::string> snapshot(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path()] = test::slurp(entry.path());
  }
  return files;
}

// A tokenizer.json of as many tokens as another, with other pieces.
std::string other_tokenizer(const std::string& json) {
  TokenizerTrainer trainer;
  for (int i = 0; i < 9; ++i) trainer.add("Otherwise, the quick brown fox jumps over a lazy dog.");
  return trainer.train(Tokenizer::parse(json, "").vocab());
}

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
  Watcher watcher;
  train_translator(files, {.observer = &watcher});
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), weights);
  ASSERT_EQ(watcher.notices.size(), 1u);
  EXPECT_NE(watcher.notices[0].find("resuming from"), std::string::npos);
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
    Watcher watcher;
    train_translator(files, {.observer = &watcher});
    return watcher.notices.empty() ? "" : watcher.notices.at(0);
  };
  EXPECT_NE(
      notice_of("a", "", long_text + "\tx\n").find("1 of 61 pairs have more than 24 tokens on a side and are left out"),
      std::string::npos);
  EXPECT_NE(notice_of("b", "\"long_pairs\": \"truncate\", ", long_text + "\tx\n")
                .find("1 of 61 pairs have more than 24 tokens on a side and are truncated"),
            std::string::npos);
  EXPECT_NE(notice_of("c", "\"max_length\": 5, ", "").find("pairs have more than 5 tokens"), std::string::npos);
}

// The same training as on pairs that end where those are cut off: the end token comes last.
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

TEST(TrainTranslator, ARefusalChangesNothing) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  const auto before = snapshot(files.out);
  const std::string tokenizer = before.at(files.out + "/tokenizer.json");
  const auto refused = [&](const TrainTranslatorFiles& other) {
    const std::string message = test::message_of<std::invalid_argument>([&] { train_translator(other); });
    EXPECT_EQ(snapshot(files.out), before);
    return message;
  };
  TrainTranslatorFiles other = files;
  other.tokenizer = folder.put("other.json", other_tokenizer(tokenizer));
  EXPECT_NE(refused(other).find("tokenizer "), std::string::npos);
  other = files;
  other.train = folder.put("other.tsv", test::pairs_of_words(61));
  EXPECT_NE(refused(other).find("training data "), std::string::npos);
  other = files;
  for (const auto& [from, to] : {std::pair("0.01", "0.02"), std::pair("\"dropout\": 0.1", "\"dropout\": 0.2"),
                                 std::pair("\"heads\": 2", "\"heads\": 4")}) {
    std::string config = test::kTinyConfig;
    other.config = folder.put("other.json", config.replace(config.find(from), std::string(from).size(), to));
    refused(other);
  }
  other.config = folder.put("broken.json", "{");
  EXPECT_THROW(train_translator(other), FormatError);
  EXPECT_EQ(snapshot(files.out), before);
}

TEST(TrainTranslator, ARefusalBesideARunningTrainingChangesNothing) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  Watcher watcher;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step != 5 && progress.step != 25) return;
    const auto before = snapshot(files.out);
    TrainTranslatorFiles other = files;
    other.train = folder.put("other.tsv", test::pairs_of_words(61));
    other.tokenizer = folder.put("other.json", other_tokenizer(test::slurp(folder / "given.json")));
    EXPECT_NE(test::message_of<IoError>([&] { train_translator(other); }).find("another process"), std::string::npos);
    EXPECT_EQ(snapshot(files.out), before);
  };
  TrainTranslatorFiles first = files;
  first.out = folder / "first";
  train_translator(first);
  folder.put("given.json", test::slurp(first.out + "/tokenizer.json"));
  train_translator(files, {.observer = &watcher});
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), test::slurp(first.out + "/model.safetensors"));
}

TEST(TrainTranslator, AFailedFirstRunLeavesNoTokenizer) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  std::string config = test::kTinyConfig;
  files.config = folder.put("wild.json", config.replace(config.find("0.01"), 4, "1e38"));
  EXPECT_THROW(train_translator(files), std::invalid_argument);
  EXPECT_FALSE(fs::exists(files.out + "/tokenizer.json"));
  const TrainTranslatorFiles tame = test::tiny_training(folder);
  train_translator(tame);
  TrainTranslatorFiles alone = tame;
  alone.out = folder / "alone";
  train_translator(alone);
  EXPECT_EQ(test::slurp(tame.out + "/model.safetensors"), test::slurp(alone.out + "/model.safetensors"));
}

TEST(TrainTranslator, AModelWithoutCheckpointsIsNotOverwritten) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  fs::remove_all(files.out + "/checkpoints");
  const auto before = snapshot(files.out);
  EXPECT_NE(test::message_of<std::invalid_argument>([&] { train_translator(files); }).find("already exists"),
            std::string::npos);
  EXPECT_EQ(snapshot(files.out), before);
}

// Whoever reads the folder while it is trained finds the best model so far, whole.
TEST(TrainTranslator, TheFolderIsAModelFromTheFirstValidationOn) {
  const test::TemporaryFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  Watcher watcher;
  int reads = 0;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step != 10 && progress.step != 11 && progress.step != 21) return;
    EXPECT_EQ(fs::exists(files.out + "/model.safetensors"), progress.step > 10);
    if (progress.step == 10) return;
    ++reads;
    Translator::load(files.out).translate("one two");
    TrainTranslatorFiles further = files;
    further.from = files.out;
    further.out = folder / ("further" + std::to_string(progress.step));
    EXPECT_EQ(train_translator(further).step, 30);
  };
  train_translator(files, {.observer = &watcher});
  EXPECT_EQ(reads, 2);
}

TEST(TrainTranslator, DivergenceLeavesTheBestModel) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  EXPECT_THROW(train_translator(files, Stopper(12).options()), Stopped);
  const std::string best = test::slurp(files.out + "/model.safetensors");
  ASSERT_FALSE(best.empty());
  std::string config = test::kTinyConfig;
  files.config = folder.put("wild.json", config.replace(config.find("0.01"), 4, "1e38"));
  EXPECT_THROW(train_translator(files, {.change = true}), std::invalid_argument);
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), best);
}

// What the weights do not depend on: blanks, the order of keys, the output's type, the log.
TEST(TrainTranslator, GoesOnWithTheSameConfigInOtherWords) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  train_translator(files);
  const std::string weights = test::slurp(files.out + "/model.safetensors");
  std::string config = test::kTinyConfig;
  config.replace(config.find("\"log_every\": 5"), 14, "\"log_every\":   9");
  files.config = folder.put("config.json", config);
  train_translator(files);
  EXPECT_EQ(test::slurp(files.out + "/model.safetensors"), weights);
  config.replace(config.find("\"dropout\""), 0, "\"dtype\": \"f16\", ");
  files.config = folder.put("config.json", config);
  train_translator(files);
  EXPECT_LT(fs::file_size(files.out + "/model.safetensors"), weights.size() * 6 / 10);
  EXPECT_NE(test::slurp(files.out + "/config.json").find("float16"), std::string::npos);
}

TEST(TrainTranslator, GoesOnWithAnotherDropoutWhereToldTo) {
  const test::TemporaryFolder folder;
  TrainTranslatorFiles files = test::tiny_training(folder);
  EXPECT_THROW(train_translator(files, Stopper(12).options()), Stopped);
  std::string config = test::kTinyConfig;
  config.replace(config.find("\"dropout\": 0.1"), 14, "\"dropout\": 0.2");
  config.replace(config.find("\"label_smoothing\": 0.1"), 22, "\"label_smoothing\": 0");
  files.config = folder.put("config.json", config);
  EXPECT_NE(test::message_of<std::invalid_argument>([&] {
              train_translator(files);
            }).find("(dropout 0.1 -> 0.2, label_smoothing 0.1 -> 0)"),
            std::string::npos);
  EXPECT_EQ(train_translator(files, {.change = true}).step, 30);
  EXPECT_NE(test::slurp(files.out + "/log.jsonl").find("\"dropout\":{\"before\":\"0.1\",\"now\":\"0.2\"}"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
