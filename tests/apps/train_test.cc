// qkv train: the files it leaves, that neither kills nor full disks show in them, and what it says and refuses.
#include <sys/mount.h>

#include "apps/running_program.h"
#include "qkv/random.h"
#include "train/train_config.h"
#include "train/translator_files.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

class TrainTest : public ::testing::Test {
 protected:
  // In `out` of the folder.
  Outcome train(const std::string& out_and_options, const Surroundings& around = {}) const {
    return folder_.run("train --config config.json --train train.tsv --valid valid.tsv --out " + out_and_options,
                       around);
  }
  // The config with one piece of text for another.
  void change_config(const std::string& from, const std::string& to) const {
    std::string config = slurp(files_.config);
    ASSERT_TRUE(holds(config, from)) << from;
    folder_.put("config.json", config.replace(config.find(from), from.size(), to));
  }
  // So many updates, with `minutes` between checkpoints beside those of the validations, which are few.
  void make_long(std::int64_t steps, const std::string& minutes) const {
    folder_.put("config.json", kTinyConfig);
    change_config("\"steps\": 30", "\"steps\": " + std::to_string(steps) + ", \"checkpoint_minutes\": " + minutes);
    change_config("\"validate_every\": 10", "\"validate_every\": 60");
  }

  // Of the newest checkpoint; 0: there is none.
  std::int64_t newest_step(const std::string& out) const {
    std::int64_t newest = 0;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder_ / out + "/checkpoints", missing)) {
      const std::string name = entry.path().filename();
      if (name.size() == 14 && name.starts_with("step-")) newest = std::max(newest, std::stol(name.substr(5)));
    }
    return newest;
  }
  // A training into `out` that gets the signal once it has written a checkpoint after those that are there.
  Outcome end_by(int signal, const std::string& out, useconds_t later = 0) const {
    const std::int64_t before = newest_step(out);
    RunningProgram program("train --config " + files_.config + " --train " + files_.train + " --valid " + files_.valid +
                           " --out " + folder_ / out);
    for (int waited = 0; newest_step(out) <= before && waited < 60'000; ++waited) usleep(500);
    usleep(later);
    return program.end(signal);
  }

  void expect_equal_models(const std::string& a, const std::string& b) const {
    for (const char* name : {"/model.safetensors", "/tokenizer.json", "/config.json", "/generation_config.json"}) {
      EXPECT_EQ(slurp(folder_ / a + name), slurp(folder_ / b + name)) << name;
    }
  }

  void expect_to_survive(int kills, std::int64_t steps) const;

  const Folder folder_;
  const TrainTranslatorFiles files_ = tiny_training(folder_);
};

TEST_F(TrainTest, SaysWhatItDoes) {
  folder_.put("valid.tsv", "new\tnuevo\n" + pairs_of_words(3) + "one\tother\n");
  change_config("280", "900");
  const Outcome outcome = train("a");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"step 20: validation loss", "valid.tsv: 3 of 5 pairs are also training pairs, the first in line 2\n",
        " tokens instead of 900"}) {
    EXPECT_TRUE(holds(outcome.err, part)) << outcome.err;
  }
  EXPECT_FALSE(holds(outcome.err, "\r"));  // no bar where there is no terminal
  EXPECT_TRUE(outcome.out.starts_with("a: 30 updates; its model is ")) << outcome.out;
  EXPECT_TRUE(holds(outcome.out, "the mean of 2 checkpoints up to step 30")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with(" MiB of memory\n")) << outcome.out;
  EXPECT_TRUE(holds(folder_.text("train --help"), training::train_keys_text()));
}

// A checkpoint after each update, and kills as soon as there is a newer one: most come while the next is written. After
// Ctrl-C what was done is kept, and the folder can be used.
void TrainTest::expect_to_survive(int kills, std::int64_t steps) const {
  make_long(steps, "0");
  ASSERT_EQ(train("whole").code, 0);
  make_long(steps, "1e-12");
  Random random(static_cast<std::uint64_t>(kills));
  for (int i = 0; i < kills; ++i) {
    const Outcome outcome = end_by(SIGKILL, "a", static_cast<useconds_t>(random.below(3000)));
    EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
    EXPECT_EQ(holds(outcome.err, "resuming from"), i > 0) << outcome.err;
  }
  make_long(steps, "0");
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::int64_t before = newest_step("a");
    const Outcome outcome = end_by(signal, "a");
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_TRUE(outcome.err.ends_with(signal == SIGINT ? "qkv train: interrupted\n" : "qkv train: terminated\n"))
        << outcome.err;
    EXPECT_GT(newest_step("a"), before);
    EXPECT_EQ(folder_.run("translate --model a 'one two'").code, 0);
  }
  EXPECT_LT(newest_step("a"), steps);
  const Outcome last = train("a");
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_TRUE(holds(last.err, "resuming from")) << last.err;
  expect_equal_models("a", "whole");
}

TEST_F(TrainTest, EndsAndKillsDoNotShow) { expect_to_survive(4, 600); }
TEST_F(TrainTest, SlowFiftyKillsDoNotShow) { expect_to_survive(50, 1500); }

// With ulimit -f, as on a full disk: one line says so, and nothing is half-written.
TEST_F(TrainTest, FilesBeyondTheLimitOfTheSystem) {
  ASSERT_EQ(train("whole").code, 0);
  std::size_t largest = 0;
  for (const auto& [path, bytes] : folder_.files()) largest = std::max(largest, bytes.size());
  for (const std::size_t limit : {std::size_t{2000}, largest / 4, largest / 2, largest - 1}) {
    const Outcome outcome = train("a", {.file_size = limit});
    EXPECT_EQ(outcome.code, 4) << limit << outcome.err;
    const std::string message = outcome.err.substr(outcome.err.find("qkv train: "));
    EXPECT_TRUE(message.ends_with("File too large\n")) << outcome.err;
    EXPECT_EQ(lines_of(message).size(), 1u) << outcome.err;
    for (const auto& [path, bytes] : folder_.files()) {
      EXPECT_FALSE(path.ends_with(".tmp") || path.ends_with(".unfinished")) << path;
    }
  }
  EXPECT_EQ(train("a").code, 0);
  expect_equal_models("a", "whole");
}

// A disk that is really full: a small file system, where this process may mount one.
TEST_F(TrainTest, SlowASmallDiskLosesNothing) {
  ASSERT_EQ(train("whole").code, 0);
  fs::create_directory(folder_ / "disk");
  if (::mount("none", (folder_ / "disk").c_str(), "tmpfs", 0, "size=800k") != 0) GTEST_SKIP() << "no right to mount";
  int failures = 0;
  for (std::size_t ballast = 800; ballast > 0; ballast -= 40) {  // KiB that something else takes
    std::ofstream(folder_ / "disk/ballast") << std::string(ballast * 1024, 'x');
    const Outcome outcome = train("disk/a");
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 4) << outcome.err;
    failures += outcome.code == 4;
    if (outcome.code == 4) {
      EXPECT_TRUE(outcome.err.ends_with("No space left on device\n")) << outcome.err;
    }
  }
  EXPECT_GT(failures, 4);
  fs::remove(folder_ / "disk/ballast");
  EXPECT_EQ(train("disk/a").code, 0);
  expect_equal_models("disk/a", "whole");
  ::umount((folder_ / "disk").c_str());
}

TEST_F(TrainTest, GoesOnWithOtherSettingsWhereToldTo) {
  ASSERT_EQ(train("a").code, 0);
  change_config("\"steps\": 30", "\"steps\": 40");
  EXPECT_EQ(train("a").code, 0);
  change_config("\"steps\": 40", "\"steps\": 50");
  change_config("\"clip\": 1", "\"clip\": 2");
  const std::string changed = "clip 1 -> 2";
  expect_message(
      train("a"), 3, "qkv train",
      "step-000000040: was written with other settings (" + changed + "); --change resumes with the new ones");
  const Outcome outcome = train("a --change");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(holds(outcome.err, "changed from step 40 on: " + changed + "\n")) << outcome.err;
}

// A model that no class of transformers holds, through the commands that train it, translate with it and explain it.
TEST_F(TrainTest, OurOwnTypeIsSaidAndOpens) {
  change_config(
      "\"dropout\"",
      R"("norm_order": "pre", "normalization": "rms", "position_kind": "rotary", "activation": "silu", "dropout")");
  change_config("\"vocab\"", R"("vocabularies": "separate", "vocab")");
  const Outcome trained = train("a");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_LT(trained.err.find("no class of transformers fits this model"), trained.err.find("step 10")) << trained.err;
  EXPECT_TRUE(holds(slurp(folder_ / "a/config.json"), "\"model_type\": \"qkv\""));
  EXPECT_FALSE(folder_.text("translate --model a --beams 1 'one two three'").empty());
  EXPECT_TRUE(holds(folder_.text("explain --model a --text 'one two three'"), "Encoder-decoder attention"));
}

// The first update moves each weight by the rate.
TEST_F(TrainTest, DivergedSaysNoNumbersOfHundredsOfDigits) {
  change_config("\"rate\": 0.01, \"warmup\": 5", "\"rate\": 1000, \"warmup\": 0");
  change_config("\"validate_every\": 10", "\"validate_every\": 1");
  change_config("\"steps\": 30", "\"steps\": 2");
  const std::string large = train("a").err;
  EXPECT_TRUE(holds(large, "step 1: validation loss ") && holds(large, ", perplexity above a million")) << large;
  change_config("\"rate\": 1000", "\"rate\": 1e38");
  const Outcome none = train("b");
  EXPECT_EQ(none.code, 3);
  EXPECT_FALSE(holds(none.err, "nan")) << none.err;
  EXPECT_TRUE(holds(none.err, " is not a number; a lower rate or a clip may help\n") ||
              holds(none.err, " is infinite; a lower rate or a clip may help\n"))
      << none.err;
}

TEST_F(TrainTest, RefusesFilesInOneLine) {
  const auto refused = [&](const std::string& line, int code, const std::string& part) {
    expect_answers(folder_, "train --valid valid.tsv --out a ", {{line, code, part}});
  };
  refused("--train train.tsv --config none.json", 4, "none.json: cannot read");
  folder_.put("train.tsv", "no tab\n");
  refused("--train train.tsv --config config.json", 3, "line 1 must be a text, a tab and its translation");
  refused("--train train.tsv --config config.json --exact-text --replace-invalid", 2, "--replace-invalid");
  folder_.put("config.json", R"({"model": {}})");
  refused("--train train.tsv --config config.json", 3, "config.json: model.model_dim is missing");
}

// The data is checked before the first step: each fault by file and line, and nothing in the folder is touched.
class TrainTestOfData : public TrainTest {
 protected:
  TrainTestOfData() { change_config("\"steps\": 30", "\"steps\": 2"); }
  // Trains into a new folder on the words and these lines, which begin in line 61.
  Outcome train_on(const std::string& lines, const std::string& options = "") const {
    fs::remove_all(folder_ / "out");
    folder_.put("train.tsv", pairs_of_words(60) + lines);
    return train("out " + options);
  }
  // The bytes of a file of such a training.
  std::string trained(const std::string& name, const std::string& lines, const std::string& options = "") const {
    const Outcome outcome = train_on(lines, options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return slurp(folder_ / "out/" + name);
  }
};

const std::pair<std::string, std::string> kFaults[] = {
    {"one\tuno</s> dos\n", "line 61 holds the special token </s>"},
    {"one <pad>\tuno\n", "line 61 holds the special token <pad>"},
    {"one <unk>\tuno\n", "line 61 holds the special token <unk>"},
    {"\none\tuno\n", "line 61 is blank"},
    {" \xc2\xa0\none\tuno\n", "line 61 is blank"},
    {"one\tuno\tein\n", "line 61 has 3 columns; it must be a text, a tab and its translation"},
    {"one\n", "line 61 must be a text, a tab and its translation"},
    {"one\t \n", "line 61 must be a text, a tab and its translation"},
    {"one\tuno\n\n\n", "line 62 is blank"},
    {"one\tuno\ncaf\xe9\tcafe\n", "line 62: byte 4 (0xe9) is not UTF-8"},
    {"\none\nx\t\n", "line 61 is blank (the first of 3 bad lines)"}};

TEST_F(TrainTestOfData, FaultsAreRefusedByLine) {
  for (const auto& [lines, part] : kFaults) {
    expect_message(train_on(lines), 3, "qkv train", "train.tsv: " + part);
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
  folder_.put("valid.tsv", "one\tuno\none\n");
  expect_message(train_on(""), 3, "qkv train", "valid.tsv: line 2 must be a text, a tab");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(TrainTestOfData, AFinishedFolderStaysAsItIs) {
  ASSERT_EQ(train_on("").code, 0);
  for (const auto& [lines, part] : kFaults) {
    folder_.put("train.tsv", pairs_of_words(60) + lines);
    const auto before = folder_.files();
    EXPECT_EQ(train("out").code, 3) << part;
    EXPECT_TRUE(folder_.files() == before);
  }
}

// A language's start, as tokenizers of several languages have it.
TEST_F(TrainTestOfData, SpecialTokensAreThoseOfTheTokenizer) {
  std::string json = trained("tokenizer.json", "");
  const std::string unknown = "\"<unk>\"";
  for (std::size_t at = json.find(unknown); at != std::string::npos; at = json.find(unknown)) {
    json.replace(at, unknown.size(), "\">>es<<\"");
  }
  folder_.put("given.json", json);
  expect_message(train_on("<unk>\tuno\n>>es<< one\tuno\n", "--tokenizer given.json"), 3, "qkv train",
                 "train.tsv: line 62 holds the special token >>es<<");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(TrainTestOfData, SkipBadLeavesThemOut) {
  const std::string weights = trained("model.safetensors", "");
  std::string lines;
  for (const auto& [bad, part] : kFaults) {
    if (!holds(bad, "one\tuno\n")) lines += bad;
  }
  const Outcome outcome = train_on(lines, "--skip-bad");
  EXPECT_TRUE(holds(outcome.err,
                    "train.tsv: 9 of 69 lines are bad and skipped; the first: line 61 holds the special "
                    "token </s>"))
      << outcome.err;
  EXPECT_EQ(slurp(folder_ / "out/model.safetensors"), weights);
}

// A byte order mark, a no-break space and a carriage return are no part of a text, unless each byte is asked for. A
// lone byte is what U+FFFD would be with --replace-invalid. Both files are read so; a blank last line is no fault.
TEST_F(TrainTestOfData, TextsHoweverTheyWereWritten) {
  const auto learned = [&](const std::string& pairs, const std::string& options) {
    fs::remove_all(folder_ / "out");
    folder_.put("train.tsv", pairs);
    const Outcome outcome = train("out " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return slurp(folder_ / "out/tokenizer.json");
  };
  const std::string words = pairs_of_words(60), dressed = "\ufeff" + words + "one\u00a0two\tdos uno\r\n",
                    plain = words + "one two\tdos uno\n", read = learned(plain, "");
  EXPECT_TRUE(learned(dressed, "") == read);
  EXPECT_TRUE(learned(plain + "\n", "--exact-text") == read);
  EXPECT_FALSE(learned(dressed, "--exact-text") == read);
  EXPECT_EQ(train_on(" ").code, 0);

  const std::string valid = pairs_of_words(10, 60);
  folder_.put("valid.tsv", valid + "\ufffd\tuno\n");
  const std::string replaced = trained("model.safetensors", "caf\ufffd\tcaf\ufffd\n");
  folder_.put("valid.tsv", valid + "\xe9\tuno\n");
  EXPECT_TRUE(trained("model.safetensors", "caf\xe9\tcaf\xe9\n", "--replace-invalid") == replaced);
  expect_message(train_on("one\n", "--replace-invalid"), 3, "qkv train", "line 61 must be a text, a tab");
}

}  // namespace
}  // namespace qkv::test
