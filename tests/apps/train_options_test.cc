// A model that no class of transformers holds, through the commands that train it, translate with it and explain it.
#include <gtest/gtest.h>

#include "apps/program.h"
#include "train/translator_files.h"

namespace qkv {
namespace {

using test::Outcome;
using test::run_program;

TEST(TrainOptionsTest, OurOwnTypeIsSaidAndOpens) {
  const test::TempFolder folder;
  const TrainTranslatorFiles files = test::tiny_training(folder);
  std::string config = test::kTinyConfig;
  config.insert(config.find("\"dropout\""),
                R"("norm_order": "pre", "normalization": "rms", "position_kind": "rotary", "activation": "silu", )");
  config.insert(config.find("\"vocab\""), R"("vocabularies": "separate", )");
  folder.put("config.json", config);
  const Outcome trained = run_program(
      {"train", "--config", files.config, "--train", files.train, "--valid", files.valid, "--out", files.out});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::size_t said = trained.err.find("no class of transformers fits this model");
  EXPECT_NE(said, std::string::npos) << trained.err;
  EXPECT_LT(said, trained.err.find("step 10"));
  EXPECT_NE(test::contents(files.out + "/config.json").find("\"model_type\": \"qkv\""), std::string::npos);

  const Outcome translated = run_program({"translate", "--model", files.out, "--beams", "1", "one two three"});
  EXPECT_EQ(translated.code, 0) << translated.err;
  EXPECT_FALSE(translated.out.empty());
  const Outcome explained = run_program({"explain", "--model", files.out, "--text", "one two three"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_NE(explained.out.find("Encoder-decoder attention"), std::string::npos) << explained.out;
}

}  // namespace
}  // namespace qkv
