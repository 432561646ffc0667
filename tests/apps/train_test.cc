// qkv train: the files it leaves, that neither kills nor full disks show in them, and what it says and refuses, of each
// kind.
#include <sys/mount.h>

#include "apps/running_program.h"
#include "qkv/random.h"
#include "train/config/train_config.h"
#include "train/language_files.h"
#include "train/text_files.h"
#include "train/translator_files.h"

namespace qkv::test {
namespace {

namespace fs = std::filesystem;

const std::string kTrain = "train --config config.json --train train.tsv --valid valid.tsv --out ";

class TrainTest : public ::testing::Test {
 protected:
  // Into a folder of the folder.
  Outcome run(const std::string& out_and_options, const Surroundings& around = {}) const {
    return folder_.run(kTrain + out_and_options, around);
  }
  Outcome train(const std::string& out_and_options) const {
    const Outcome outcome = run(out_and_options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }
  void change_config(const Json& change) const {
    Json config = Json::parse(slurp(files_.config));
    config.merge_patch(change);
    folder_.put("config.json", config.dump());
  }
  // So many updates, with `minutes` between checkpoints beside those of the validations, which are few.
  void make_long(std::int64_t steps, double minutes) const {
    change_config({{"training", {{"steps", steps}, {"checkpoint_minutes", minutes}, {"validate_every", 60}}}});
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
    RunningProgram program(kTrain + out, folder_.path());
    for (int waited = 0; newest_step(out) <= before && waited < 60'000; ++waited) usleep(500);
    usleep(later);
    return program.end(signal);
  }

  void expect_equal_models(const std::string& a, const std::string& b) const {
    for (const char* name : {"/model.safetensors", "/tokenizer.json", "/config.json", "/generation_config.json"}) {
      EXPECT_EQ(slurp(folder_ / a + name), slurp(folder_ / b + name)) << name;
    }
  }

  // A checkpoint after each update, and kills as soon as there is a newer one: most come while the next is written.
  // After Ctrl-C what was done is kept, and the folder can be used.
  void expect_to_survive(int kills, std::int64_t steps) const {
    make_long(steps, 0);
    train("whole");
    make_long(steps, 1e-12);
    Random random(static_cast<std::uint64_t>(kills));
    for (int i = 0; i < kills; ++i) {
      const Outcome outcome = end_by(SIGKILL, "a", static_cast<useconds_t>(random.below(3000)));
      EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
      EXPECT_EQ(holds(outcome.err, "resuming from"), i > 0) << outcome.err;
    }
    make_long(steps, 0);
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
    expect_words(train("a").err, "resuming from");
    expect_equal_models("a", "whole");
  }

  const Folder folder_;
  const TrainTranslatorFiles files_ = tiny_training(folder_);
};

TEST_F(TrainTest, SaysWhatItDoes) {
  folder_.put("valid.tsv", "new\tnuevo\n" + pairs_of_words(3) + "one\tother\n");
  change_config({{"tokenizer", {{"vocab", 900}}}});
  const Outcome outcome = train("a");
  expect_words(outcome.err,
               "step 20: validation loss ...  tokens instead of 900 ... valid.tsv: 3 of 5 pairs are also "
               "training pairs, the first in line 2\n");
  EXPECT_FALSE(holds(outcome.err, "\r"));  // no bar where there is no terminal
  EXPECT_TRUE(outcome.out.starts_with("a: 30 updates; its model is ")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with(" MiB of memory\n")) << outcome.out;
  expect_words(outcome.out, "the mean of 2 checkpoints up to step 30");
  expect_words(folder_.text("COLUMNS=1000 train --help"), training::train_keys_text());
}

// What it opens must not become one of them. Only a closed output is an error: what belongs there is lost.
TEST_F(TrainTest, ClosedStreamsDoNotShowInTheFolder) {
  train("whole");
  int runs = 0;
  for (const std::vector<int>& closed : {std::vector{0, 1, 2}, {2}, {0, 2}, {1}}) {
    const std::string out = "closed" + std::to_string(runs++);
    const bool output = std::ranges::count(closed, STDOUT_FILENO) == 0;
    EXPECT_EQ(run(out, {.closed = closed}).code, output ? 0 : 4) << out;
    expect_equal_models(out, "whole");
    EXPECT_EQ(fs::file_size(folder_ / out + "/checkpoints/lock"), 0u) << out;
  }
}

TEST_F(TrainTest, EndsAndKillsDoNotShow) { expect_to_survive(4, 600); }
TEST_F(TrainTest, SlowFiftyKillsDoNotShow) { expect_to_survive(50, 1500); }

// With ulimit -S -t.
TEST_F(TrainTest, TheLimitOnProcessorTimeLeavesACheckpoint) {
  make_long(1'000'000, 1e9);
  std::int64_t before = 0;
  for (int i = 0; i < 2; ++i) {
    const Outcome outcome = run("a", {.seconds = 1});
    EXPECT_EQ(outcome.code, 128 + SIGXCPU) << outcome.err;
    EXPECT_TRUE(outcome.err.ends_with("qkv train: the limit on processor time is reached\n")) << outcome.err;
    EXPECT_EQ(holds(outcome.err, "resuming from"), i > 0) << outcome.err;
    EXPECT_GT(newest_step("a"), before);
    before = newest_step("a");
  }
}

// With ulimit -f, as on a full disk: one line says so, and nothing is half-written.
TEST_F(TrainTest, FilesBeyondTheLimitOfTheSystem) {
  train("whole");
  std::size_t largest = 0;
  for (const auto& [path, bytes] : folder_.files()) largest = std::max(largest, bytes.size());
  for (const std::size_t limit : {std::size_t{2000}, largest / 4, largest / 2, largest - 1}) {
    const Outcome outcome = run("a", {.file_size = limit});
    EXPECT_EQ(outcome.code, 4) << limit << outcome.err;
    const std::string message = outcome.err.substr(outcome.err.find("qkv train: "));
    EXPECT_TRUE(message.ends_with("File too large\n")) << outcome.err;
    EXPECT_EQ(lines_of(message).size(), 1u) << outcome.err;
    for (const auto& [path, bytes] : folder_.files()) {
      EXPECT_FALSE(path.ends_with(".tmp") || path.ends_with(".unfinished")) << path;
    }
  }
  train("a");
  expect_equal_models("a", "whole");
}

// A disk that is really full: a small file system, where this process may mount one.
TEST_F(TrainTest, SlowASmallDiskLosesNothing) {
  train("whole");
  fs::create_directory(folder_ / "disk");
  if (::mount("none", (folder_ / "disk").c_str(), "tmpfs", 0, "size=800k") != 0) GTEST_SKIP() << "no right to mount";
  int failures = 0;
  for (std::size_t ballast = 800; ballast > 0; ballast -= 40) {  // KiB that something else takes
    std::ofstream(folder_ / "disk/ballast") << std::string(ballast * 1024, 'x');
    const Outcome outcome = run("disk/a");
    failures += outcome.code == 4;
    EXPECT_TRUE(outcome.code == 0 || (outcome.code == 4 && outcome.err.ends_with("No space left on device\n")))
        << outcome;
  }
  EXPECT_GT(failures, 4);
  fs::remove(folder_ / "disk/ballast");
  train("disk/a");
  expect_equal_models("disk/a", "whole");
  ::umount((folder_ / "disk").c_str());
}

TEST_F(TrainTest, GoesOnWithOtherSettingsWhereToldTo) {
  train("a");
  change_config({{"training", {{"steps", 40}}}});
  train("a");
  change_config({{"training", {{"steps", 50}, {"clip", 2}}}});
  expect_message(run("a"), 3, "qkv train",
                 "step-000000040: was written with other settings (clip 1 -> 2); --change resumes with the new ones");
  expect_words(train("a --change").err, "changed from step 40 on: clip 1 -> 2\n");
}

// A model that no class of transformers holds, through the commands that train it, translate with it and explain it.
TEST_F(TrainTest, OurOwnTypeIsSaidAndOpens) {
  change_config(Json::parse(R"({"model": {"norm_order": "pre", "normalization": "rms", "position_kind": "rotary",
                                          "activation": "silu"}, "tokenizer": {"vocabularies": "separate"}})"));
  const std::string said = train("a").err;
  EXPECT_LT(said.find("no class of transformers fits this model"), said.find("step 10")) << said;
  EXPECT_EQ(Json::parse(slurp(folder_ / "a/config.json")).at("model_type"), "qkv");
  EXPECT_FALSE(folder_.text("translate --model a --beams 1 'one two three'").empty());
  expect_words(folder_.text("explain --model a --text 'one two three'"), "Encoder-decoder attention");
}

// The first update moves each weight by the rate.
TEST_F(TrainTest, DivergedSaysNoNumbersOfHundredsOfDigits) {
  change_config({{"training", {{"rate", 1000}, {"warmup", 0}, {"validate_every", 1}, {"steps", 2}}}});
  const std::string large = run("a").err;
  EXPECT_TRUE(holds(large, "step 1: validation loss ") && holds(large, ", perplexity above a million")) << large;
  change_config({{"training", {{"rate", 1e38}}}});
  const Outcome none = run("b");
  EXPECT_EQ(none.code, 3);
  EXPECT_FALSE(holds(none.err, "nan")) << none.err;
  EXPECT_TRUE(holds(none.err, " is not a number; a lower rate or a clip may help\n") ||
              holds(none.err, " is infinite; a lower rate or a clip may help\n"))
      << none.err;
}

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

// The data is checked before the first step: each fault by file and line, and nothing in a folder is touched.
TEST_F(TrainTest, FaultsOfDataAreRefusedByLine) {
  const std::string good = pairs_of_words(60);
  change_config({{"training", {{"steps", 2}}}});
  train("done");
  const auto refused = [&](const char* file, const std::string& lines, const std::string& part,
                           const std::string& options = "") {
    folder_.put(file, lines);
    const auto before = folder_.files();
    for (const std::string out : {"new", "done"}) expect_message(run(out + options), 3, "qkv train", file + part);
    EXPECT_TRUE(folder_.files() == before);
  };
  std::string bad;
  for (const auto& [lines, part] : kFaults) {
    refused("train.tsv", good + lines, ": " + part);
    if (!holds(lines, "one\tuno\n")) bad += lines;
  }
  refused("train.tsv", good + "one\n", ": line 61 must be a text, a tab", " --replace-invalid");
  // A language's start, as tokenizers of several languages have it.
  std::string json = slurp(folder_ / "done/tokenizer.json");
  const std::string unknown = "\"<unk>\"";
  for (std::size_t at = json.find(unknown); at != std::string::npos; at = json.find(unknown)) {
    json.replace(at, unknown.size(), "\">>es<<\"");
  }
  folder_.put("given.json", json);
  refused("train.tsv", good + "<unk>\tuno\n>>es<< one\tuno\n", ": line 62 holds the special token >>es<<",
          " --tokenizer given.json");
  // They are left out where that is asked for.
  folder_.put("train.tsv", good + bad);
  expect_words(train("skipped --skip-bad").err,
               "train.tsv: 9 of 69 lines are bad and skipped; the first: line 61 holds the special token </s>");
  EXPECT_EQ(slurp(folder_ / "skipped/model.safetensors"), slurp(folder_ / "done/model.safetensors"));
  folder_.put("train.tsv", good);
  refused("valid.tsv", "one\tuno\none\n", ": line 2 must be a text, a tab");
}

// A byte order mark, a no-break space and a carriage return are no part of a text, unless each byte is asked for. A
// lone byte is what U+FFFD would be with --replace-invalid. Both files are read so; a blank last line is no fault.
TEST_F(TrainTest, ReadsTextsHoweverTheyWereWritten) {
  change_config({{"training", {{"steps", 2}}}});
  const auto learned = [&](const std::string& pairs, const std::string& options, const char* file = "tokenizer.json") {
    fs::remove_all(folder_ / "a");
    folder_.put("train.tsv", pairs);
    train("a " + options);
    return slurp(folder_ / "a/" + file);
  };
  const std::string words = pairs_of_words(60), valid = pairs_of_words(10, 60),
                    dressed = "\ufeff" + words + "one\u00a0two\tdos uno\r\n", plain = words + "one two\tdos uno\n",
                    read = learned(plain + " ", "");
  EXPECT_TRUE(learned(dressed, "") == read);
  EXPECT_TRUE(learned(plain + "\n", "--exact-text") == read);
  EXPECT_FALSE(learned(dressed, "--exact-text") == read);
  folder_.put("valid.tsv", valid + "\ufffd\tuno\n");
  const std::string replaced = learned(words + "caf\ufffd\tcaf\ufffd\n", "", "model.safetensors");
  folder_.put("valid.tsv", valid + "\xe9\tuno\n");
  EXPECT_TRUE(learned(words + "caf\xe9\tcaf\xe9\n", "--replace-invalid", "model.safetensors") == replaced);
}

// Each kind of training, from files to a folder that the command of its task opens; and bad input with its exit code.
TEST(TrainKinds, AnswerInOneLine) {
  Folder folder;
  tiny_language(folder);
  tiny_texts(folder);
  folder.put("texts.txt", counting(3) + "\n" + counting(4));
  folder.put("words.txt", "w1\tA\nw2\tB\n\nw1\tA\n");
  folder.put("pairs.tsv", "w1\tw2\nw3\tw4\n");
  folder.put("empty.txt", "a\n\n\nb\n");
  folder.put("bytes.txt", "a\xff\n");
  folder.put("unknown.tsv", "w1\tneither\n");
  const auto put = [&](const std::string& name, const char* config, const std::string& kind, const Json& training) {
    Json json = Json::parse(config);
    json["kind"] = kind;
    json["training"].update(training);
    json["training"]["steps"] = 2;
    folder.put(name + ".json", json.dump());
  };
  for (const char* kind : {"classes", "tokens", "contrast"}) put(kind, kTinyTexts, kind, Json::object());
  put("language", kTinyLanguage, "language", Json::object());
  put("short", kTinyLanguage, "language", {{"long_texts", "refuse"}, {"max_length", 4}});
  const std::pair<const char*, const char*> trained[] = {
      {"train --config language.json --train texts.txt --valid texts.txt --out writer",
       " bits per byte ... qkv generate --model opens it"},
      {"train --config classes.json --from encoder --train train.tsv --valid valid.tsv --out sorter",
       ", accuracy 0. ... qkv classify --model opens it; only resuming needs its checkpoints/"},
      {"train --config tokens.json --from encoder --train words.txt --valid words.txt --out tagger",
       ", accuracy ... qkv tag --model opens it"}};
  for (const auto& [line, said] : trained) {
    const Outcome outcome = folder.run(line);
    EXPECT_EQ(outcome.code, 0) << line;
    expect_words(outcome.err, std::string("step 2: validation loss ... ") + said);
    expect_words(outcome.out, ": 2 updates; its model is step 2");
  }
  expect_answers(
      folder, "",
      {{"generate --model writer --max-new-tokens 1 one", 0, ""},
       {"classify --model sorter w1", 0, "w1: ... even ("},
       {"train --config contrast.json --from sorter --train pairs.tsv --valid pairs.tsv --out v", 3,
        "sorter: the model has a head, classifier.weight"},
       {"train --config language.json --train empty.txt --valid texts.txt --out a", 3,
        "empty.txt: line 3 is blank: an empty document"},
       {"train --config language.json --train bytes.txt --valid texts.txt --out a", 3, "not UTF-8"},
       {"train --config short.json --train texts.txt --valid texts.txt --out a", 3, "more than max_length, 4; "},
       {"train --config classes.json --from encoder --train train.tsv --valid unknown.tsv --out a", 3,
        "unknown.tsv: line 1 has the label \"neither\", which is not in the training data"},
       {"train --config contrast.json --from encoder --train pairs.tsv --valid words.txt --out a", 3,
        "words.txt: line 3"},
       {"train --config classes.json --from encoder --train pairs.tsv --valid valid.tsv --out a --tokenizer t.json", 2,
        "--tokenizer: does not apply to the \"kind\" of the config"},
       {"train --config classes.json --train train.tsv --valid valid.tsv --out a", 2, "--from: is required"}});
  EXPECT_FALSE(fs::exists(folder / "a"));
}

}  // namespace
}  // namespace qkv::test
