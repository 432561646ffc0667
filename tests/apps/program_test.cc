// The program around its commands: usage, the environment, standard output, signals, and what info and bench measure.
#include "apps/running_program.h"
#include "apps/tiny_bert.h"
#include "qkv/target.h"

namespace qkv::test {
namespace {

TEST(Program, WithoutACommandOrWithAWrongOneItSaysWhichThereAre) {
  expect_message(run_program(""), 2, "qkv", "qkv: name a command: explain, attend, translate, ");
  expect_message(run_program("bench"), 2, "qkv bench",
                 "qkv bench: name a command: attention, matmul (see qkv bench --help)");
  expect_message(run_program("tokenizer"), 2, "qkv tokenizer",
                 "qkv tokenizer: name a command: train, encode, decode (see qkv tokenizer --help)");
  const std::tuple<const char*, const char*, const char*> wrong[] = {
      {"atend", "qkv", "unknown subcommand \"atend\"; did you mean attend?"},
      {"explian --json", "qkv", "unknown subcommand \"explian\"; did you mean explain?"},
      {"softmax", "qkv", "unknown subcommand \"softmax\""},
      {"bench matmull", "qkv bench", "unknown subcommand \"matmull\"; did you mean matmul?"},
      {"attend --casual top-left", "qkv attend", "unknown option \"--casual\"; did you mean --causal?"},
      {"explain --jsn", "qkv explain", "unknown option \"--jsn\"; did you mean --json?"},
      {"plan --qlen=4", "qkv plan", "unknown option \"--qlen=4\"; did you mean --q-len?"},
      {"plan --frobnicate", "qkv plan", "unknown option \"--frobnicate\""},
      {"--threads 1 info", "qkv info", "unknown option \"--threads\"; options follow the command"},
      {"explain --frobnicate 10", "qkv explain", "unknown option \"--frobnicate\""},
      {"generate --repetition-penalty 0 a", "qkv generate",
       "--repetition-penalty: \"0\" must be a finite number, 1e-06 or above"}};
  for (const auto& [line, command, message] : wrong) {
    const std::string name = command;
    expect_message(run_program(line), 2, name, name + ": " + message + " (see " + name + " --help)");
  }
  expect_message(run_program("--frobnicate"), 2, "qkv", "--frobnicate");
  expect_message(run_program("info 'two\nlines\x1b[31m'"), 2, "qkv info", "two?lines?[31m");
}

TEST(Program, InfoListsTheTargetsAndTheEnvironmentChooses) {
  const std::vector<Target> known = targets();
  const std::string text = text_of("info");
  for (const Target& target : known) {
    const Outcome outcome = run_program("QKV_TARGET=" + target.name + " info --json");
    expect_words(text, "\n  " + target.name + " ");
    if (!target.usable) {
      expect_message(outcome, 2, "qkv info", target.name);
      continue;
    }
    Json expected = Json::array();
    for (const auto& [name, usable, selected, lanes, fused] : known) {
      expected.push_back(
          {{"name", name}, {"usable", usable}, {"lanes", lanes}, {"selected", name == target.name}, {"fused", fused}});
    }
    EXPECT_EQ(Json::parse(outcome.out).at("targets"), expected);
  }
}

TEST(Program, OutputThatCannotBeWrittenIsAnError) {
  for (const char* output : {"/dev/full", "-"}) {
    for (const std::string line : {"info", "info --json", "--help", "attend --version", "explain"}) {
      const std::string name = line[0] == '-' ? "qkv" : "qkv " + words_of(line)[0];
      expect_message(run_program(line, {.output = output}), 4, name, "standard output");
    }
  }
  const std::string golden = "@tests/golden/";
  for (const auto& [name, options, input] :
       {std::tuple("embed", " --model " + golden + "encoders/roberta", "a\n"),
        std::tuple("tag", " --model " + golden + "tags", "a\n"),
        std::tuple("tokenizer encode", " --tokenizer " + golden + "encoders/roberta/tokenizer.json", "a\n"),
        std::tuple("translate", " --ids --model " + golden + "translate/relu", "20 19 0\n")}) {
    expect_message(run_program(name + options, {.output = "/dev/full", .input = input}), 4, std::string("qkv ") + name,
                   "standard output: No space left on device");
  }
}

// Backward has five products of the forward pass's size for its two; a causal mask hides half.
TEST(Program, BenchCountsTheOperationsThatItTimes) {
  const std::string attention = "attention --q-len 20 --k-len 30 --head-dim 16 --pass ";
  const std::pair<std::string, double> cases[] = {
      {"attention --batch 2 --heads 4 --kv-heads 2 --q-len 33 --k-len 65 --head-dim 16 --value-dim 24 --causal "
       "bottom-right --dtype bf16",
       2.0 * 2 * 4 * 33 * 65 * (16 + 24) / 2},
      {attention + "backward", 2.5 * 2 * 20 * 30 * (16 + 16)},
      {attention + "both", 3.5 * 2 * 20 * 30 * (16 + 16)},
      {"matmul --m 33 --k 65 --n 17 --dtype f64", 2.0 * 33 * 65 * 17}};
  for (const auto& [line, operations] : cases) {
    const Json result = Json::parse(text_of("bench " + line + " --threads 1 --json"));
    EXPECT_NEAR(result.at("gflops").get<double>() * result.at("best_ms").get<double>(), operations * 1e-6,
                operations * 1e-12);
    EXPECT_GT(result.at("peak_gflops").get<double>(), 0);
    EXPECT_EQ(result.at("target"), selected_target());
    EXPECT_EQ(result.at("threads"), 1);
    EXPECT_EQ(result.at("peak_dtype"), holds(line, "f64") ? "f64" : "f32");
    EXPECT_EQ(result.size(), 6u);
  }
}

// Not 8 and 3, as C reads them.
TEST(Program, WholeNumbersAreDecimal) {
  for (const std::string option : {"plan --q-len 8 --k-len 20 --head-dim ", "plan --q-len 8 --k-len 20 --lengths "}) {
    EXPECT_EQ(text_of(option + "010"), text_of(option + "10"));
    EXPECT_NE(text_of(option + "010"), text_of(option + "8"));
  }
  EXPECT_EQ(text_of("explain --inputs 010"), text_of("explain --inputs 10"));
  const std::string seed = "18446744073709551615";
  EXPECT_EQ(text_of("explain --inputs 3 --seed " + seed), text_of("explain --inputs 3 --seed 0" + seed));
}

// The moment of the signal does not matter: minutes of work, and seconds in the kernel and in the reference. Without a
// handler the exit code would be the same; the message would not be there.
TEST(Program, InterruptionEndsIt) {
  const std::string bench = "bench attention --q-len 1000000 --k-len 1000000 --head-dim 8 --threads 1";
  expect_message(run_program(bench, {.interrupted_by = SIGINT}), 130, "qkv bench attention", "interrupted\n");
  expect_message(run_program(bench, {.interrupted_by = SIGTERM}), 143, "qkv bench attention", "terminated\n");
  for (const std::string heads : {"--key-dim=8", "--heads=2"}) {
    const Outcome outcome = run_program("explain --inputs 4096 --dim 8 " + heads, {.interrupted_by = SIGINT});
    expect_message(outcome, 130, "qkv explain", "interrupted\n");
  }
}

// More than the pipe holds, and nobody who reads on: the text that is left is not waited for.
TEST(Program, InterruptionEndsThePrinting) {
  for (const std::string form : {"--full", "--json"}) {
    RunningProgram program("explain --inputs 100 " + form);
    EXPECT_NE(program.read_character(), 0);
    const Outcome outcome = program.end(SIGINT);
    EXPECT_EQ(outcome, (Outcome{130, outcome.out, "qkv explain: interrupted\n"}));
  }
}

TEST(Program, InterruptionEndsTheWaitForALine) {
  const TinyBert bert;
  const std::pair<std::string, std::string> programs[] = {
      {"embed --model " + bert / "model", "a b"},
      {"translate --model @tests/golden/translate/relu --ids", "20 19 0"},
      {"generate --model @tests/golden/language/llama --ids --max-new-tokens 3", "20 19 0"},
      {"tokenizer encode --tokenizer " + bert / "model/tokenizer.json", "a b"},
      {"tokenizer decode --tokenizer " + bert / "model/tokenizer.json", "1 2"}};
  for (const auto& [command, line] : programs) {
    for (const int signal : {SIGINT, SIGTERM}) {
      RunningProgram program(command);
      program.write(line + "\n");
      EXPECT_NE(program.read_line(), "") << command;  // it waits for the next line now, or is about to
      program.write("half a line");
      const std::string name = "qkv " + command.substr(0, command.find(" --"));
      expect_message(program.end(signal), 128 + signal, name, signal == SIGINT ? "interrupted\n" : "terminated\n");
    }
  }
}

TEST(Program, AMappedFileThatIsCutShortEndsIt) {
  const Folder folder;
  const std::string model = folder / "model";
  std::filesystem::copy(QKV_TEST_DATA "/golden/translate/relu", model);
  succeed("pack --model " + model);
  RunningProgram program("translate --ids --model " + model);
  program.write("20 19 0\n");
  EXPECT_NE(program.read_line(), "");
  std::filesystem::resize_file(model + "/panels-f32.safetensors", 0);
  program.write("20 19 0\n");
  expect_message(program.end(0), 4, "qkv", "a mapped file was cut short or cannot be read: panels of a model");
}

}  // namespace
}  // namespace qkv::test
