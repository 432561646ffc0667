// qkv train: numbers of a training that goes wrong, in words.
#include "apps/program.h"
#include "train/translator_files.h"

namespace qkv::test {
namespace {

// The first update moves each weight by the rate.
Outcome train_at(const std::string& rate) {
  const TempFolder folder;
  const TrainTranslatorFiles files = tiny_training(folder);
  std::string config = kTinyConfig;
  const auto replace = [&](const std::string& before, const std::string& after) {
    config.replace(config.find(before), before.size(), after);
  };
  replace("\"rate\": 0.01, \"warmup\": 5", "\"rate\": " + rate + ", \"warmup\": 0");
  replace("\"validate_every\": 10", "\"validate_every\": 1");
  replace("\"steps\": 30", "\"steps\": 2");
  std::ofstream(files.config) << config;
  return run_program(
      {"train", "--config", files.config, "--train", files.train, "--valid", files.valid, "--out", files.out});
}

TEST(TrainDiverged, PerplexityIsNoNumberOfHundredsOfDigits) {
  const Outcome outcome = train_at("1000");
  EXPECT_NE(outcome.err.find("step 1: validation loss "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(", perplexity above a million"), std::string::npos) << outcome.err;
}

TEST(TrainDiverged, LossThatIsNoNumber) {
  const Outcome outcome = train_at("1e38");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err.find("nan"), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.err.find(" is not a number; a lower rate or a clip may help\n") != std::string::npos ||
              outcome.err.find(" is infinite; a lower rate or a clip may help\n") != std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace qkv::test
