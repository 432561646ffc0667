// qkv train checks its data before the first step: each fault by file and line, and nothing in the folder is touched.
#include <gtest/gtest.h>

#include <map>

#include "apps/program.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

using test::contents;
using test::expect_message;
using test::Outcome;
using test::run_program;

class TrainDataTest : public ::testing::Test {
 protected:
  std::vector<std::string> arguments(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"train",   "--config",   files_.config, "--train",    files_.train,
                                 "--valid", files_.valid, "--out",       folder_ / out};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Trains on the words and these lines, which begin in line 61.
  Outcome train_on(const std::string& lines, std::vector<std::string> more = {}) const {
    std::ofstream(files_.train, std::ios::binary) << test::pairs_of_words(60) << lines;
    return run_program(arguments("out", std::move(more)));
  }

  const test::TempFolder folder_;
  const TrainTranslatorFiles files_ = test::tiny_training(folder_);
};

struct Fault {
  std::string lines, message;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"one\tuno</s> dos\n", "train.tsv: line 61 holds the special token </s>"},
      {"one <pad>\tuno\n", "train.tsv: line 61 holds the special token <pad>"},
      {"one <unk>\tuno\n", "train.tsv: line 61 holds the special token <unk>"},
      {"one\tuno\ncaf\xe9\tcafe\n", "train.tsv: line 62: byte 4 (0xe9) is not UTF-8"},
      {"\none\tuno\n", "train.tsv: line 61 is blank"},
      {" \xc2\xa0\none\tuno\n", "train.tsv: line 61 is blank"},
      {"one\tuno\tein\n", "train.tsv: line 61 has 3 columns; it must be a text, a tab and its translation"},
      {"one\n", "train.tsv: line 61 must be a text, a tab and its translation"},
      {"one\t \n", "train.tsv: line 61 must be a text, a tab and its translation"},
      {"one\tuno\n\n\n", "train.tsv: line 62 is blank"},
  };
  return all;
}

TEST_F(TrainDataTest, FaultsAreRefusedByLine) {
  for (const Fault& fault : faults()) {
    SCOPED_TRACE(fault.message);
    expect_message(train_on(fault.lines), 3, "qkv train", fault.message);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
  expect_message(train_on("\none\nx\t\n"), 3, "qkv train", "line 61 is blank (the first of 3 bad lines)");
}

TEST_F(TrainDataTest, ThoseOfTheValidationToo) {
  std::ofstream(files_.valid, std::ios::binary) << "one\tuno\none\n";
  expect_message(run_program(arguments("out")), 3, "qkv train", "valid.tsv: line 2 must be a text, a tab");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

// A language's start, as tokenizers of several languages have it.
TEST_F(TrainDataTest, SpecialTokensAreThoseOfTheTokenizer) {
  ASSERT_EQ(train_on("").code, 0);
  std::string json = contents(folder_ / "out/tokenizer.json");
  const std::string unknown = "\"<unk>\"";
  for (std::size_t at = json.find(unknown); at != std::string::npos; at = json.find(unknown)) {
    json.replace(at, unknown.size(), "\">>es<<\"");
  }
  std::ofstream(folder_ / "given.json") << json;
  std::ofstream(files_.train, std::ios::binary) << test::pairs_of_words(60) << "<unk>\tuno\n>>es<< one\tuno\n";
  expect_message(run_program(arguments("other", {"--tokenizer", folder_ / "given.json"})), 3, "qkv train",
                 "train.tsv: line 62 holds the special token >>es<<");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(TrainDataTest, AFinishedFolderStaysAsItIs) {
  ASSERT_EQ(train_on("").code, 0);
  std::map<std::string, std::string> before;
  const auto files = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "out")) {
      if (entry.is_regular_file()) all[entry.path()] = contents(entry.path());
    }
    return all;
  };
  before = files();
  for (const Fault& fault : faults()) EXPECT_EQ(train_on(fault.lines).code, 3) << fault.message;
  EXPECT_EQ(files(), before);
}

TEST_F(TrainDataTest, SkipBadLeavesThemOut) {
  ASSERT_EQ(train_on("").code, 0);
  const std::string weights = contents(folder_ / "out/model.safetensors");
  std::filesystem::remove_all(folder_ / "out");
  std::string lines;
  for (const Fault& fault : faults()) {
    if (fault.lines.find("one\tuno\n") == std::string::npos) lines += fault.lines;
  }
  const Outcome outcome = train_on(lines, {"--skip-bad"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.err.find("train.tsv: 6 of 66 lines are bad and skipped; the first: line 61 holds the special token </s>"),
      std::string::npos)
      << outcome.err;
  EXPECT_EQ(contents(folder_ / "out/model.safetensors"), weights);
}

// --replace-invalid: a lone byte is what U+FFFD would be. Both files are read so.
TEST_F(TrainDataTest, InvalidBytesCanBeReplaced) {
  const auto weights = [&](const std::string& lines, const std::string& valid, std::vector<std::string> more) {
    std::filesystem::remove_all(folder_ / "out");
    folder_.put("valid.tsv", test::pairs_of_words(10, 60) + valid);
    const Outcome outcome = train_on(lines, std::move(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return contents(folder_ / "out/model.safetensors");
  };
  const std::string replaced = weights("caf\ufffd\tcaf\ufffd\n", "\ufffd\tuno\n", {});
  EXPECT_TRUE(weights("caf\xe9\tcaf\xe9\n", "\xe9\tuno\n", {"--replace-invalid"}) == replaced);
  std::filesystem::remove_all(folder_ / "out");
  expect_message(train_on("caf\xe9\tcafe\n"), 3, "qkv train", "line 61: byte 4 (0xe9) is not UTF-8");
  expect_message(train_on("one\n", {"--replace-invalid"}), 3, "qkv train", "line 61 must be a text, a tab");
}

// A byte order mark, a no-break space and a carriage return are no part of a text, unless each byte is asked for.
TEST_F(TrainDataTest, ExactTextKeepsEveryByte) {
  const auto learned = [&](const std::string& pairs, std::vector<std::string> more) {
    std::filesystem::remove_all(folder_ / "out");
    folder_.put("train.tsv", pairs);
    const Outcome outcome = run_program(arguments("out", std::move(more)));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return contents(folder_ / "out/tokenizer.json");
  };
  const std::string words = test::pairs_of_words(60);
  const std::string dressed = "\ufeff" + words + "one\u00a0two\tdos uno\r\n", plain = words + "one two\tdos uno\n";
  EXPECT_TRUE(learned(dressed, {}) == learned(plain, {}));
  EXPECT_FALSE(learned(dressed, {"--exact-text"}) == learned(plain, {"--exact-text"}));
  EXPECT_TRUE(learned(plain, {"--exact-text"}) == learned(plain, {}));
  expect_message(train_on("", {"--exact-text", "--replace-invalid"}), 2, "qkv train", "--replace-invalid");
}

TEST_F(TrainDataTest, ABlankLastLineIsNoFault) {
  EXPECT_EQ(train_on("\n").code, 0);
  std::filesystem::remove_all(folder_ / "out");
  EXPECT_EQ(train_on(" ").code, 0);
}

TEST_F(TrainDataTest, SaysWhatIsInBothFiles) {
  std::ofstream(files_.valid, std::ios::binary) << "new\tnuevo\n" << test::pairs_of_words(3) << "one\tother\n";
  const Outcome outcome = run_program(arguments("out"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("valid.tsv: 3 of 5 pairs are also training pairs, the first in line 2\n"),
            std::string::npos)
      << outcome.err;
}

TEST_F(TrainDataTest, SaysThatTheVocabularyIsSmaller) {
  std::string config = test::kTinyConfig;
  config.replace(config.find("280"), 3, "900");
  std::ofstream(files_.config) << config;
  const Outcome outcome = run_program(arguments("out"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(" tokens instead of 900"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace qkv
