// qkv compare as a user runs it.
#include <cmath>
#include <map>

#include "apps/program.h"

namespace qkv::test {
namespace {

// So many rows of each kind, and of each model what its layers make of its structure.
void expect_rows(const Json& result, const std::string& counts) {
  expect_words(result.dump(), counts);
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

void expect_text(const Folder& folder, const std::string& text, const std::string& tasks) {
  expect_words(text, tasks + " ... gradient of a loss ... counted from the layers ... time and memory per token");
  for (const std::string name : {"accuracy.svg", "gradient.svg", "cost.svg", "translating.svg"}) {
    EXPECT_TRUE(slurp(folder / "out/" + name).starts_with("<svg ")) << name;
  }
}

// The table of operations in docs/lesson/before.md.
void expect_lesson_counts(const Json& result) {
  const std::map<std::string, std::string> rows{{"rnn", "RNN, LSTM, GRU"},
                                                {"lstm", "RNN, LSTM, GRU"},
                                                {"gru", "RNN, LSTM, GRU"},
                                                {"cnn", "CNN"},
                                                {"transformer", "Transformer"},
                                                {"seq2seq-fixed", "encoder-decoder, fixed vector"},
                                                {"seq2seq-additive", "with additive attention"},
                                                {"seq2seq-dot", "with dot attention"}};
  const auto thousands = [](const Json& count) {
    return std::to_string(std::lround(count.get<double>() / 1000)) + ",000 |";
  };
  const std::string lesson = slurp(QKV_SOURCE_DIR "/docs/lesson/before.md");
  for (const Json& one : result["structure"]) {
    const std::string model = one["model"], work = one["work"];
    if (model == "transformer" && work == "translating") continue;
    const Json &at_once = one["operations_at_once"]["values"], &in_turn = one["operations_in_turn"]["values"];
    const std::string row = "| " + rows.at(model) + " | " + thousands(at_once.front()) + " " +
                            thousands(at_once.back()) + " " + thousands(in_turn.back()) + "\n";
    EXPECT_TRUE(holds(lesson, row)) << row;
  }
}

TEST(CompareCommand, GoesOnAfterAnInterruption) {
  const Folder folder;
  const std::string some = "compare --tasks copy,reversal --models cnn,seq2seq-dot --quick --out out";
  EXPECT_EQ(folder.run(some, {.interrupted_by = SIGINT}).code, 130);
  const Outcome text = folder.run(some);
  EXPECT_EQ(text.code, 0) << text.err;
  expect_words(text.err, "100 %");
  EXPECT_TRUE(text.out.starts_with("After a few updates nothing is learned: these numbers only show that everything"))
      << text.out;
  for (const std::string& line : lines_of(text.out)) {
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
    EXPECT_LE(std::ssize(line) - std::ranges::count_if(line, continues), 80) << line;
  }
  expect_text(folder, text.out, "copy:  ... reversal: ");
  // What is done is read again.
  const Json result = Json::parse(folder.run(some + " --json --threads 1").out);
  EXPECT_EQ(result, Json::parse(slurp(folder / "out/comparison.json")));
  expect_rows(result, "/tasks # 2 ... /gradients # 1 ... /structure # 2 ... /cost # 8");
}

TEST(CompareCommand, SlowQuickHasEveryRow) {
  const Folder folder;
  const std::string text = folder.run("compare --quick --out out").out;
  expect_text(folder, text, "recall:  ... copy:  ... key-value:  ... reversal:  ... phrases:  ... clipped at 1");
  // 3 tasks of 5 models, 2 of 4
  const Json result = Json::parse(slurp(folder / "out/comparison.json"));
  expect_rows(result, "/tasks # 23 ... /gradients # 11 ... /structure # 9 ... /cost # 36");
  expect_lesson_counts(result);
}

}  // namespace
}  // namespace qkv::test
