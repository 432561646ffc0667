// What must come out of the whole comparison: the one in the folder that QKV_COMPARISON names, or a new one.
#include "io/files_for_test.h"
#include "lab/compare/compare.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

Json finished_comparison() {
  if (const char* folder = std::getenv("QKV_COMPARISON")) {
    return Json::parse(test::slurp(std::string(folder) + "/comparison.json"));
  }
  const test::TemporaryFolder folder;
  return Json::parse(to_json(compare({.phrases = QKV_SOURCE_DIR "/data/phrases.es.tsv"}, folder / "out")));
}

class SlowCompare : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { comparison_ = finished_comparison(); }
  static void TearDownTestSuite() { comparison_ = {}; }

  // The row of a list whose fields have these values.
  static Json row(const char* list, const Json& fields) {
    for (const Json& row : comparison_[list]) {
      bool fits = true;
      for (const auto& [name, value] : fields.items()) fits = fits && row[name] == value;
      if (fits) return row;
    }
    ADD_FAILURE() << list << " has no " << fields;
    return {};
  }
  static Json accuracy(const char* task, const char* model) {
    return row("tasks", {{"task", task}, {"model", model}})["accuracy"];
  }
  static double ratio_at_start(const char* model) {
    return row("gradients", {{"model", model}, {"when", "start"}})["ratio"];
  }

  static Json comparison_;
};
Json SlowCompare::comparison_;

TEST_F(SlowCompare, WhatMustComeOut) {
  ASSERT_EQ(comparison_["effort"], "full");

  // Beyond their reach the convolutions guess: within three deviations of the share of right guesses.
  const Json cnn = row("structure", {{"model", "cnn"}});
  EXPECT_EQ(cnn["reach"], cnn["measured_reach"]);
  const Json recall = row("tasks", {{"task", "recall"}, {"model", "cnn"}});
  const double chance = recall["chance"];
  int beyond = 0;
  for (const Json& point : recall["accuracy"]) {
    if (point["at"] <= cnn["reach"]) continue;
    const double asked = static_cast<double>(recall["asked"]) * static_cast<double>(point["values"].size());
    EXPECT_NEAR(point["mean"], chance, 3 * std::sqrt(chance * (1 - chance) / asked)) << point["at"];
    ++beyond;
  }
  EXPECT_GE(beyond, 5);

  // One vector holds a short sequence and not a long one; attention holds both.
  const Json fixed = accuracy("reversal", "seq2seq-fixed");
  EXPECT_GT(fixed.front()["mean"], 0.95);
  EXPECT_LT(fixed.back()["mean"], 0.8);
  for (std::size_t i = 1; i < fixed.size(); ++i) EXPECT_LE(fixed[i]["mean"], fixed[i - 1]["mean"]);
  for (const char* model : {"seq2seq-additive", "seq2seq-dot"}) {
    for (const Json& point : accuracy("reversal", model)) EXPECT_GT(point["mean"], 0.95) << model << point["at"];
  }

  // What of a gradient is left after 128 steps of what there is after one, before training.
  EXPECT_LT(ratio_at_start("rnn"), 1e-3);
  EXPECT_GT(ratio_at_start("transformer"), 0.1);
  EXPECT_GT(ratio_at_start("lstm"), ratio_at_start("rnn"));
  EXPECT_GT(ratio_at_start("lstm-open"), ratio_at_start("rnn"));

  // Attention alone costs a token more in a longer sequence.
  for (const Json& structure : comparison_["structure"]) {
    const std::string model = structure["model"];
    const bool attends = model == "transformer" || model == "seq2seq-additive" || model == "seq2seq-dot";
    for (const char* operations : {"operations_at_once", "operations_in_turn"}) {
      const Json& values = structure[operations]["values"];
      for (std::size_t i = 1; i < values.size(); ++i) {
        EXPECT_EQ(values[i] > values[i - 1], attends) << model << ", " << operations;
      }
    }
  }

  // On equal terms.
  for (const Json& one : comparison_["tasks"]) {
    for (const Json& other : comparison_["tasks"]) {
      if (one["task"] != other["task"]) continue;
      EXPECT_LE(one["parameters"].get<double>(), 1.03 * other["parameters"].get<double>());
    }
  }
}

}  // namespace
}  // namespace qkv
