// qkv train: the files it leaves, that being killed does not show in them, and what it refuses.
#include <gtest/gtest.h>

#include "apps/program.h"
#include "train/train_keys.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

using test::contents;
using test::expect_message;
using test::Outcome;
using test::run_program;

class TrainTest : public ::testing::Test {
 protected:
  // A file in the test's folder.
  struct Folder {
    const test::TempFolder& temporary;
    std::string operator/(const std::string& name) const { return temporary / name; }
    std::string put(const std::string& name, const std::string& bytes) const {
      std::ofstream(temporary / name, std::ios::binary) << bytes;
      return temporary / name;
    }
  };

  std::vector<std::string> arguments(const std::string& out) const {
    return {"train",   "--config",   files_.config, "--train",    files_.train,
            "--valid", files_.valid, "--out",       folder_ / out};
  }

  const test::TempFolder folder_;
  const TrainTranslatorFiles files_ = test::tiny_training(Folder{folder_});
};

TEST_F(TrainTest, TrainsAndSaysSo) {
  const Outcome outcome = run_program(arguments("a"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("30 updates, best validation loss"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with(" MiB of memory\n")) << outcome.out;
  EXPECT_NE(outcome.err.find("step 20: validation loss"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find('\r'), std::string::npos);  // no bar where there is no terminal
}

TEST_F(TrainTest, HelpListsEveryKey) {
  const Outcome outcome = run_program({"train", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find(training::train_keys_text()), std::string::npos) << outcome.out;
}

TEST_F(TrainTest, BeingKilledDoesNotShow) {
  ASSERT_EQ(run_program(arguments("whole")).code, 0);
  for (int i = 1; i <= 4; ++i) {
    const Outcome outcome = run_program(arguments("killed"), {.interrupt_after_ms = 40 * i, .signal = SIGKILL});
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 128 + SIGKILL) << outcome.code << outcome.err;
  }
  ASSERT_EQ(run_program(arguments("killed")).code, 0);
  for (const char* name : {"/model.safetensors", "/tokenizer.json", "/config.json"}) {
    EXPECT_EQ(contents(folder_ / "killed" + name), contents(folder_ / "whole" + name)) << name;
  }
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
