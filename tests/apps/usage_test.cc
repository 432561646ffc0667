// What is wrong with a command line, in our words: the words of the library that reads it never show.
#include "apps/program.h"

namespace qkv::test {
namespace {

TEST(Usage, MessagesNameTheOptionAndWhatWouldBeRight) {
  const auto refused = [](std::vector<std::string> arguments, const std::string& part) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find(": " + part + " (see qkv "), std::string::npos) << outcome.err;
  };
  const auto attend = [&](std::initializer_list<std::string> options, const std::string& part) {
    std::vector<std::string> arguments = {"attend", "--query", "a", "--key", "b", "--value", "c", "--out", "o.npy"};
    arguments.insert(arguments.end(), options);
    refused(arguments, part);
  };
  attend({"--scale"}, "--scale needs X");
  attend({"--scale", "1", "--scale", "2"}, "--scale takes 1 value, got 2");
  attend({"--causal"}, "--causal needs top-left|bottom-right");
  attend({"--query", "d"}, "--query takes 1 value, got 2");
  attend({"--foo"}, "unknown option \"--foo\"");
  attend({"foo"}, "unexpected argument \"foo\"");
  attend({"--scale", "1", "2"}, "unexpected argument \"2\"");
  attend({"--swin-table", "a", "--swin-window", "2"}, "--swin-window takes 2 values, got 1");
  attend({"--swin-table", "a", "--swin-window", "2,3,4"}, "--swin-window takes 2 values, got 3");
  attend({"--verify", "x"}, "--verify: \"x\" must be a whole number from 1 to 1073741824");
  refused({"explain", "--inputs", "0"}, "--inputs: \"0\" must be a whole number from 1 to 4096");
  refused({"explain", "--json=x"}, "--json takes no value");
  refused({"explain", "--inputs", "3", "--input", "x"}, "--input cannot be combined with --inputs");
  refused({"explain", "--layer", "1", "--head", "1"}, "--layer: needs --text or --image, what the model is to read");
  refused({"info", "plan"}, "unexpected argument \"plan\"");
}

TEST(Usage, ThreadsAreADecimalNumber) {
  const Outcome outcome = run_program({"info", "--threads", "010"});
  EXPECT_NE(outcome.out.find("threads: 10 of "), std::string::npos) << outcome.out << outcome.err;
}

// Not 8 and 3, as C reads them.
TEST(Usage, WholeNumbersAreDecimal) {
  const auto plan = [](const std::string& option, const std::string& value) {
    return run_program({"plan", "--batch", "1", "--q-len", "8", "--k-len", "20", option, value});
  };
  EXPECT_EQ(plan("--head-dim", "010").out, plan("--head-dim", "10").out);
  EXPECT_NE(plan("--head-dim", "010").out, plan("--head-dim", "8").out);
  EXPECT_EQ(plan("--lengths", "010").out, plan("--lengths", "10").out);
  EXPECT_NE(plan("--lengths", "010").out, plan("--lengths", "8").out);
  EXPECT_EQ(run_program({"explain", "--inputs", "010"}).out, run_program({"explain", "--inputs", "10"}).out);
  expect_message(plan("--lengths", "0x3"), 2, "qkv plan", "--lengths: \"0x3\" must be a whole number");
  expect_message(plan("--prefix", "1,b"), 2, "qkv plan", "--prefix: \"b\" must be a whole number");
  expect_message(plan("--head-dim", "0x3"), 2, "qkv plan", "--head-dim: \"0x3\" must be a whole number from 1 to ");
  EXPECT_EQ(run_program({"explain", "--inputs", "3", "--seed", "018446744073709551615"}).out,
            run_program({"explain", "--inputs", "3", "--seed", "18446744073709551615"}).out);
}

// Those that an option needs and excludes are named in the order in which the help lists them.
TEST(Usage, RulesNameOptionsInTheOrderOfTheHelp) {
  const std::string help = run_program({"explain", "--help"}).out;
  EXPECT_NE(help.find("--layer N Needs: --head Excludes: --weights --keep\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--weights Needs: --json --text Excludes: --image --layer --token\n"), std::string::npos) << help;
  expect_message(run_program({"explain", "--weights"}), 2, "qkv explain", "--weights requires --json");
  expect_message(run_program({"explain", "--layer", "1"}), 2, "qkv explain", "--layer requires --head");
}

}  // namespace
}  // namespace qkv::test
