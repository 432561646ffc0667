// qkv train: the files it leaves, that neither kills nor full disks show in them, and what it refuses.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "apps/running_program.h"
#include "qkv/random.h"
#include "train/train_config.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::contents;
using test::expect_message;
using test::Outcome;
using test::run_program;
using test::RunningProgram;

class TrainTest : public ::testing::Test {
 protected:
  std::vector<std::string> arguments(const std::string& out) const {
    return {"train",   "--config",   files_.config, "--train",    files_.train,
            "--valid", files_.valid, "--out",       folder_ / out};
  }

  // The config with one piece of text for another.
  void change_config(const std::string& from, const std::string& to) const {
    std::string config = contents(files_.config);
    ASSERT_NE(config.find(from), std::string::npos) << from;
    folder_.put("config.json", config.replace(config.find(from), from.size(), to));
  }
  // So many updates, with `minutes` between checkpoints beside those of the validations, which are few.
  void make_long(std::int64_t steps, const std::string& minutes) const {
    folder_.put("config.json", test::kTinyConfig);
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
  // Half a minute at most.
  void wait_for_checkpoint(const std::string& out, std::int64_t after) const {
    for (int waited = 0; newest_step(out) <= after && waited < 60'000; ++waited) usleep(500);
  }

  void expect_equal_models(const std::string& a, const std::string& b) const {
    for (const char* name : {"/model.safetensors", "/tokenizer.json", "/config.json", "/generation_config.json"}) {
      EXPECT_EQ(contents(folder_ / a + name), contents(folder_ / b + name)) << name;
    }
  }

  void expect_to_survive_kills(int times, std::int64_t steps) const;

  const test::TempFolder folder_;
  const TrainTranslatorFiles files_ = test::tiny_training(folder_);
};

TEST_F(TrainTest, TrainsAndSaysSo) {
  const Outcome outcome = run_program(arguments("a"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("a: 30 updates; its model is "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("the mean of 2 checkpoints up to step 30"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with(" MiB of memory\n")) << outcome.out;
  EXPECT_NE(outcome.err.find("step 20: validation loss"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find('\r'), std::string::npos);  // no bar where there is no terminal
}

TEST_F(TrainTest, HelpListsEveryKey) {
  const Outcome outcome = run_program({"train", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find(training::train_keys_text()), std::string::npos) << outcome.out;
}

// A checkpoint after each update, and kills as soon as there is a newer one: most come while the next is written.
void TrainTest::expect_to_survive_kills(int times, std::int64_t steps) const {
  make_long(steps, "0");
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  make_long(steps, "1e-12");
  Random random(static_cast<std::uint64_t>(times));
  for (int i = 0; i < times; ++i) {
    const std::int64_t before = newest_step("killed");
    RunningProgram program(arguments("killed"));
    wait_for_checkpoint("killed", before);
    usleep(static_cast<useconds_t>(random.below(3000)));
    const Outcome outcome = program.end(SIGKILL);
    EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
    EXPECT_EQ(outcome.err.find("resuming from") != std::string::npos, i > 0) << outcome.err;
  }
  EXPECT_LT(newest_step("killed"), steps);
  make_long(steps, "0");
  const Outcome last = run_program(arguments("killed"));
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_NE(last.err.find("resuming from"), std::string::npos) << last.err;
  expect_equal_models("killed", "whole");
}

TEST_F(TrainTest, BeingKilledDoesNotShow) { expect_to_survive_kills(4, 600); }
TEST_F(TrainTest, SlowBeingKilledFiftyTimesDoesNotShow) { expect_to_survive_kills(50, 1500); }

// As after Ctrl-C, what was done is kept, and the folder can be used.
TEST_F(TrainTest, SignalsEndItWithACheckpoint) {
  constexpr std::int64_t steps = 600;
  make_long(steps, "0");
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningProgram program(arguments("a"));
    wait_for_checkpoint("a", newest_step("a"));
    const std::int64_t before = newest_step("a");
    const Outcome outcome = program.end(signal);
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_TRUE(outcome.err.ends_with(signal == SIGINT ? "qkv train: interrupted\n" : "qkv train: terminated\n"))
        << outcome.err;
    EXPECT_GE(newest_step("a"), before);  // the update that it was in is given up
    EXPECT_EQ(run_program({"translate", "--model", folder_ / "a", "one two"}).code, 0);
  }
  EXPECT_LT(newest_step("a"), steps);
  EXPECT_EQ(run_program(arguments("a")).code, 0);
  expect_equal_models("a", "whole");
}

// With ulimit -f, as on a full disk: one line says so, and nothing is half-written.
TEST_F(TrainTest, FilesBeyondTheLimitOfTheSystem) {
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  std::size_t largest = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "whole")) {
    if (entry.is_regular_file()) largest = std::max<std::size_t>(largest, entry.file_size());
  }
  for (const std::size_t limit : {std::size_t{2000}, largest / 4, largest / 2, largest - 1}) {
    const Outcome outcome = run_program(arguments("a"), {.file_size = limit});
    EXPECT_EQ(outcome.code, 4) << limit << outcome.err;
    const std::string message = outcome.err.substr(outcome.err.find("qkv train: "));
    EXPECT_TRUE(message.ends_with("File too large\n")) << outcome.err;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << outcome.err;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "a")) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(name.ends_with(".tmp") || name.ends_with(".unfinished")) << name;
    }
  }
  EXPECT_EQ(run_program(arguments("a")).code, 0);
  expect_equal_models("a", "whole");
}

// A disk that is really full: a small file system, where this process may mount one.
TEST_F(TrainTest, SlowASmallDiskLosesNothing) {
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  fs::create_directory(folder_ / "disk");
  constexpr std::size_t kKiB = 1024, kSize = 800;
  if (::mount("none", (folder_ / "disk").c_str(), "tmpfs", 0, "size=800k") != 0) GTEST_SKIP() << "no right to mount";
  int failures = 0;
  for (std::size_t ballast = kSize; ballast > 0; ballast -= 40) {  // KiB that something else takes
    std::ofstream(folder_ / "disk/ballast") << std::string(ballast * kKiB, 'x');
    const Outcome outcome = run_program(arguments("disk/a"));
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 4) << outcome.err;
    failures += outcome.code == 4;
    if (outcome.code == 4) {
      EXPECT_TRUE(outcome.err.ends_with("No space left on device\n")) << outcome.err;
    }
  }
  EXPECT_GT(failures, 4);
  fs::remove(folder_ / "disk/ballast");
  EXPECT_EQ(run_program(arguments("disk/a")).code, 0);
  expect_equal_models("disk/a", "whole");
  ::umount((folder_ / "disk").c_str());
}

TEST_F(TrainTest, GoesOnWithOtherSettingsWhereToldTo) {
  ASSERT_EQ(run_program(arguments("a")).code, 0);
  change_config("\"steps\": 30", "\"steps\": 40");
  EXPECT_EQ(run_program(arguments("a")).code, 0);
  change_config("\"steps\": 40", "\"steps\": 50");
  change_config("\"clip\": 1", "\"clip\": 2");
  expect_message(run_program(arguments("a")), 3, "qkv train",
                 "step-000000040: was written with other settings (clip 1 -> 2); --change resumes with the new ones");
  std::vector<std::string> changed = arguments("a");
  changed.push_back("--change");
  const Outcome outcome = run_program(changed);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("changed from step 40 on: clip 1 -> 2\n"), std::string::npos) << outcome.err;
}

TEST_F(TrainTest, RefusesWhatCannotBeMeant) {
  EXPECT_EQ(run_program({"train"}).code, 2);
  std::vector<std::string> missing = arguments("a");
  missing[2] = folder_ / "none.json";
  expect_message(run_program(missing), 4, "qkv train", "none.json: cannot read");
  std::ofstream(files_.train) << "no tab\n";
  expect_message(run_program(arguments("a")), 3, "qkv train",
                 "train.tsv: line 1 must be a text, a tab and its translation");
  std::ofstream(files_.config) << R"({"model": {}})";
  expect_message(run_program(arguments("a")), 3, "qkv train", "config.json: model.model_dim is missing");
}

}  // namespace
}  // namespace qkv
