// qkv compare as a user runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/program.h"
#include "sanitizers.h"

namespace qkv::test {
namespace {

TEST(CompareCommand, QuickHasEveryRow) {
#ifdef QKV_SANITIZED
  GTEST_SKIP() << "takes minutes; the tests of compare() do the same with less";
#endif
  const TempFolder folder;
  const Outcome text = run_program({"compare", "--quick", "--out", folder / "out"});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"recall: ", "copy: ", "key-value: ", "reversal: ", "phrases: ", "gradient of a loss",
                           "clipped at 1", "counted from the layers", "time and memory per token"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  }
  EXPECT_NE(text.err.find("100 %"), std::string::npos) << text.err;
  for (const char* name : {"accuracy.svg", "gradient.svg", "cost.svg", "translating.svg"}) {
    EXPECT_TRUE(contents(folder / "out/" + name).starts_with("<svg ")) << name;
  }
  // What is done is read again.
  const Outcome json = run_program({"compare", "--quick", "--out", folder / "out", "--json", "--threads", "1"});
  ASSERT_EQ(json.code, 0) << json.err;
  const auto result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result, nlohmann::json::parse(contents(folder / "out/comparison.json")));
  EXPECT_EQ(result["tasks"].size(), 23u);  // 3 tasks of 5 models, 2 of 4
  EXPECT_EQ(result["gradients"].size(), 11u);
  EXPECT_EQ(result["structure"].size(), 9u);
  EXPECT_EQ(result["cost"].size(), 36u);
  for (const auto& structure : result["structure"]) {
    const std::string model = structure["model"];
    const bool steps_grow = model != "cnn" && model != "transformer";
    EXPECT_EQ(structure["sequential_steps"]["exponent"].get<double>() > 0.5, steps_grow) << model;
    const auto& operations = structure["operations_in_turn"]["values"];
    const bool attends = model == "transformer" || model == "seq2seq-additive" || model == "seq2seq-dot";
    EXPECT_EQ(operations.back() > operations.front(), attends) << model;
    EXPECT_EQ(structure["reach"], model == "cnn" ? 30 : 127) << model;
  }
}

TEST(CompareCommand, GoesOnAfterAnInterruption) {
  const TempFolder folder;
  const std::vector<std::string> command{"compare", "--tasks", "copy",  "--models",
                                         "rnn",     "--quick", "--out", folder / "out"};
  const Outcome interrupted = run_program(command, {.interrupt_once_watched = true});
  EXPECT_EQ(interrupted.code, 130) << interrupted.err;
  const Outcome finished = run_program(command);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("copy: "), std::string::npos);
}

TEST(CompareCommand, RefusesNamesThatItDoesNotKnow) {
  const TempFolder folder;
  const auto refused = [&](const std::string& option, const std::string& value, int code, const std::string& part) {
    expect_message(run_program({"compare", option, value, "--out", folder / "out"}), code, "qkv compare", part);
  };
  refused("--tasks", "recal", 2, "\"recal\" must be one of recall, copy, key-value, reversal, phrases");
  refused("--models", "rnn,mamba", 2, "\"mamba\" must be one of rnn, lstm, gru, cnn, transformer, seq2seq-fixed");
  expect_message(run_program({"compare", "--tasks", "reversal", "--models", "cnn", "--out", folder / "out"}), 3,
                 "qkv compare", "reversal is for seq2seq-fixed");
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace qkv::test
