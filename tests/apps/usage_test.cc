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
  refused({"explain", "--layer", "1", "--head", "1"}, "--layer requires --text");
  refused({"info", "plan"}, "unexpected argument \"plan\"");
}

TEST(Usage, ThreadsAreADecimalNumber) {
  const Outcome outcome = run_program({"info", "--threads", "010"});
  EXPECT_NE(outcome.out.find("threads: 10 of "), std::string::npos) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace qkv::test
