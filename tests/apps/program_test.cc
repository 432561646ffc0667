// The program around its subcommands: help, version, usage errors, the environment, standard output, interruption.
#include <nlohmann/json.hpp>

#include "apps/commands_of_help.h"
#include "qkv/target.h"
#include "qkv/threads.h"

namespace qkv::test {
namespace {

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& last) {
  arguments.push_back(last);
  return arguments;
}

TEST(Program, EveryCommandHasHelp) {
  // The program itself, and at least these.
  const auto all = commands();
  EXPECT_GE(all.size(), 15u);
  for (const std::vector<std::string>& known :
       {std::vector<std::string>{"attend"}, {"train"}, {"tokenizer", "encode"}}) {
    EXPECT_NE(std::find(all.begin(), all.end(), known), all.end()) << known.back();
  }
  for (const auto& command : all) {
    for (const char* option : {"--help", "-h"}) {
      const Outcome outcome = run_program(with(command, option));
      EXPECT_EQ(outcome.code, 0);
      EXPECT_EQ(outcome.err, "");
      std::string name = "qkv";
      for (const std::string& word : command) name += " " + word;
      EXPECT_NE(outcome.out.find("Usage: " + name + " "), std::string::npos) << outcome.out;
    }
  }
}

TEST(Program, EveryCommandHasAVersion) {
  for (const auto& command : commands()) {
    const Outcome outcome = run_program(with(command, "--version"));
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(outcome.out.starts_with("qkv ")) << outcome.out;
    EXPECT_EQ(outcome.out, run_program({"--version"}).out);
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Program, WithoutASubcommandItShowsHelpAsAnError) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"bench"}}) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("Usage: qkv"), std::string::npos);
    EXPECT_NE(outcome.err.find("attention"), std::string::npos);
  }
}

TEST(Program, UsageErrorsAreOneLineThatSaysWhereHelpIs) {
  expect_message(run_program({"atend"}), 2, "qkv", "unknown subcommand \"atend\" (see qkv --help)");
  expect_message(run_program({"bench", "softmax"}), 2, "qkv bench", "unknown subcommand \"softmax\"");
  expect_message(run_program({"--frobnicate"}), 2, "qkv", "--frobnicate");
  expect_message(run_program({"info", "--frobnicate"}), 2, "qkv info", "(see qkv info --help)");
  expect_message(run_program({"info", "surplus"}), 2, "qkv info", "surplus");
  expect_message(run_program({"info", "two\nlines\x1b[31m"}), 2, "qkv info", "two?lines?[31m");
}

TEST(Program, ThreadsComeFromTheOptionThenTheEnvironment) {
  const auto threads = [](const std::vector<std::string>& arguments, const std::string& variable) {
    return nlohmann::json::parse(run_program(arguments, {.environment = {variable}}).out).at("threads").get<int>();
  };
  EXPECT_EQ(threads({"info", "--json"}, "QKV_THREADS=3"), 3);
  EXPECT_EQ(threads({"info", "--json", "--threads", "5"}, "QKV_THREADS=3"), 5);
  EXPECT_EQ(threads({"info", "--json"}, "OMP_NUM_THREADS=6,2"), 6);
  const std::string info = run_program({"info"}, {.environment = {"OMP_NUM_THREADS=6"}}).out;
  EXPECT_NE(info.find("(OMP_NUM_THREADS)"), std::string::npos) << info;
  for (const char* text : {"0", "-1", "1025", "many", "1.5", "99999999999999999999", ""}) {
    expect_message(run_program({"info", "--threads", text}), 2, "qkv info", "--threads");
  }
  expect_message(run_program({"info"}, {.environment = {"QKV_THREADS=none"}}), 2, "qkv info", "1 to 1024");
}

TEST(Program, TheEnvironmentChoosesTheTarget) {
  for (const Target& target : targets()) {
    const Outcome outcome = run_program({"info", "--json"}, {.environment = {"QKV_TARGET=" + target.name}});
    if (!target.usable) {
      expect_message(outcome, 2, "qkv info", target.name);
      continue;
    }
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto info = nlohmann::json::parse(outcome.out);
    for (const auto& entry : info.at("targets")) {
      EXPECT_EQ(entry.at("selected").get<bool>(), entry.at("name") == target.name);
    }
  }
  expect_message(run_program({"info"}, {.environment = {"QKV_TARGET=abacus"}}), 2, "qkv info", "abacus");
}

TEST(Program, InfoListsTheTargetsOfTheLibrary) {
  const auto info = nlohmann::json::parse(run_program({"info", "--json"}).out);
  const std::vector<Target> known = targets();
  ASSERT_EQ(info.at("targets").size(), known.size());
  const std::string text = run_program({"info"}).out;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto& entry = info.at("targets").at(i);
    EXPECT_EQ(entry.at("name"), known[i].name);
    EXPECT_EQ(entry.at("usable"), known[i].usable);
    EXPECT_EQ(entry.at("lanes"), known[i].lanes);
    EXPECT_NE(text.find(known[i].name), std::string::npos);
  }
}

TEST(Program, OutputThatCannotBeWrittenIsAnError) {
  for (const char* output : {"/dev/full", "-"}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"info"}, {"info", "--json"}, {"--help"}, {"attend", "--version"}, {"explain"}}) {
      const Outcome outcome = run_program(arguments, {.output = output});
      expect_message(outcome, 4, arguments.front() == "--help" ? "qkv" : "qkv " + arguments.front(), "standard output");
    }
  }
}

TEST(Program, BenchPrintsOneObject) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"bench",    "attention",    "--batch", "2",    "--heads",    "4",  "--kv-heads",  "2",
                                 "--q-len",  "33",           "--k-len", "65",   "--head-dim", "16", "--value-dim", "24",
                                 "--causal", "bottom-right", "--dtype", "bf16", "--threads",  "1",  "--json"},
        {"bench", "matmul", "--m", "33", "--k", "65", "--n", "17", "--dtype", "f64", "--threads", "1", "--json"}}) {
    const Outcome outcome = run_program(arguments);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out);
    const double operations = arguments[1] == "attention" ? 2.0 * 2 * 4 * 33 * 65 * (16 + 24) / 2 : 2.0 * 33 * 65 * 17;
    EXPECT_NEAR(result.at("gflops").get<double>() * result.at("best_ms").get<double>(), operations * 1e-6,
                operations * 1e-12);
    EXPECT_GT(result.at("peak_gflops").get<double>(), 0);
    EXPECT_EQ(result.at("target"), selected_target());
    EXPECT_EQ(result.at("threads"), 1);
    EXPECT_EQ(result.size(), 5u);
  }
}

// Backward has five products of the forward pass's size for its two.
TEST(Program, BenchCountsThePassesItTimes) {
  for (const auto& [pass, share] : {std::pair{"forward", 1.0}, {"backward", 2.5}, {"both", 3.5}}) {
    const Outcome outcome = run_program(
        {"bench", "attention", "--q-len", "20", "--k-len", "30", "--head-dim", "16", "--pass", pass, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out);
    const double operations = share * 2 * 20 * 30 * (16 + 16);
    EXPECT_NEAR(result.at("gflops").get<double>() * result.at("best_ms").get<double>(), operations * 1e-6,
                operations * 1e-12);
  }
  expect_message(run_program({"bench", "attention", "--q-len", "2", "--k-len", "3", "--pass", "sideways"}), 2,
                 "qkv bench attention", "forward|backward|both");
}

TEST(Program, BenchRefusesSizesThatCannotBe) {
  const auto bench = [](std::vector<std::string> sizes) {
    sizes.insert(sizes.begin(), {"bench", "attention"});
    return run_program(sizes);
  };
  expect_message(bench({"--q-len", "8"}), 2, "qkv bench attention", "--k-len is required");
  for (const char* size : {"0", "-1", "x", "1.5", "99999999999999999999"}) {
    expect_message(bench({"--q-len", "8", "--k-len", size}), 2, "qkv bench attention", "--k-len");
  }
  expect_message(bench({"--q-len", "1000000000000", "--k-len", "8"}), 2, "qkv bench attention", "GB");
  expect_message(bench({"--q-len", "8", "--k-len", "8", "--heads", "3", "--kv-heads", "2"}), 2, "qkv bench attention",
                 "--kv-heads");
  expect_message(bench({"--q-len", "8", "--k-len", "8", "--head-dim", "2000"}), 2, "qkv bench attention", "1024");
  expect_message(run_program({"bench", "matmul", "--m", "1", "--k", "1099511627776", "--n", "1099511627776"}), 2,
                 "qkv bench matmul", "GB");
}

TEST(Program, SeedsAreWholeNumbersOf64Bits) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"qkv explain", {"explain", "--inputs", "2"}},
      {"qkv attend", {"attend", "--dropout", "0.5"}},
      {"qkv bench attention", {"bench", "attention", "--dropout", "0.5"}},
      {"qkv translate", {"translate", "--sample", "a"}}};
  for (const auto& [name, command] : commands) {
    for (const char* seed : {"-1", "18446744073709551616", "1.5", "+1", "0x1", "", "1e3", "99999999999999999999"}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--seed", seed});
      expect_message(run_program(arguments), 2, name, "must be a whole number from 0 to 2^64 - 1");
    }
  }
  EXPECT_EQ(run_program({"explain", "--inputs", "2", "--seed", "18446744073709551615"}).code, 0);
}

}  // namespace
}  // namespace qkv::test
