// qkv compare as a user runs it.
#include "apps/program.h"

namespace qkv::test {
namespace {

// What the structure of each model is by the layers that it has.
void expect_structure(const Json& result) {
  for (const Json& structure : result["structure"]) {
    const std::string model = structure["model"];
    const bool steps_grow = model != "cnn" && model != "transformer";
    EXPECT_EQ(structure["sequential_steps"]["exponent"].get<double>() > 0.5, steps_grow) << model;
    const Json& operations = structure["operations_in_turn"]["values"];
    const bool attends = model == "transformer" || model == "seq2seq-additive" || model == "seq2seq-dot";
    EXPECT_EQ(operations.back() > operations.front(), attends) << model;
    EXPECT_EQ(structure["reach"], model == "cnn" ? 30 : 127) << model;
  }
}

void expect_sizes(const Json& result, std::size_t tasks, std::size_t gradients, std::size_t models, std::size_t cost) {
  EXPECT_EQ(result["tasks"].size(), tasks);
  EXPECT_EQ(result["gradients"].size(), gradients);
  EXPECT_EQ(result["structure"].size(), models);
  EXPECT_EQ(result["cost"].size(), cost);
  expect_structure(result);
}

void expect_text(const Folder& folder, const std::string& text, const std::string& tasks) {
  expect_words(text, tasks + " ... gradient of a loss ... counted from the layers ... time and memory per token");
  for (const std::string name : {"accuracy.svg", "gradient.svg", "cost.svg", "translating.svg"}) {
    EXPECT_TRUE(slurp(folder / "out/" + name).starts_with("<svg ")) << name;
  }
}

TEST(CompareCommand, GoesOnAfterAnInterruption) {
  const Folder folder;
  const std::string some = "compare --tasks copy,reversal --models cnn,seq2seq-dot --quick --out out";
  const Outcome interrupted = folder.run(some, {.interrupted_by = SIGINT});
  EXPECT_EQ(interrupted.code, 130) << interrupted.err;
  const Outcome text = folder.run(some);
  EXPECT_EQ(text.code, 0) << text.err;
  expect_words(text.err, "100 %");
  expect_text(folder, text.out, "copy:  ... reversal: ");
  // What is done is read again.
  const Json result = Json::parse(folder.run(some + " --json --threads 1").out);
  EXPECT_EQ(result, Json::parse(slurp(folder / "out/comparison.json")));
  expect_sizes(result, 2, 1, 2, 8);
}

TEST(CompareCommand, SlowQuickHasEveryRow) {
  const Folder folder;
  const std::string text = folder.run("compare --quick --out out").out;
  expect_text(folder, text, "recall:  ... copy:  ... key-value:  ... reversal:  ... phrases:  ... clipped at 1");
  // 3 tasks of 5 models, 2 of 4
  expect_sizes(Json::parse(slurp(folder / "out/comparison.json")), 23, 11, 9, 36);
}

}  // namespace
}  // namespace qkv::test
