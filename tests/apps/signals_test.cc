// Signals: one of them ends the program, with one line and the exit code that a shell would report.
#include "apps/attend.h"
#include "apps/running_program.h"
#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

// Without a handler the exit code would be the same; the message would not be there.
TEST(Program, InterruptionEndsIt) {
  // Minutes of work; the moment of the signal does not matter.
  const std::vector<std::string> bench = {"bench",   "attention",  "--q-len", "1000000",   "--k-len",
                                          "1000000", "--head-dim", "8",       "--threads", "1"};
  expect_message(run_program(bench, {.interrupt_once_watched = true}), 130, "qkv bench attention", "interrupted\n");
  expect_message(run_program(bench, {.interrupt_once_watched = true, .signal = SIGTERM}), 143, "qkv bench attention",
                 "terminated\n");
}

// Seconds of work in the kernel and in the reference.
TEST(Program, InterruptionEndsAnExplanation) {
  for (const char* heads : {"--key-dim=8", "--heads=2"}) {
    expect_message(run_program({"explain", "--inputs", "4096", "--dim", "8", heads}, {.interrupt_once_watched = true}),
                   130, "qkv explain", "interrupted\n");
  }
}

// More than the pipe holds, and nobody who reads on: the text that is left is not waited for.
TEST(Program, InterruptionEndsThePrinting) {
  for (const char* form : {"--full", "--json"}) {
    RunningProgram program({"explain", "--inputs", "100", form});
    EXPECT_NE(program.read_character(), 0);
    const Outcome outcome = program.end(SIGINT);
    EXPECT_EQ(outcome.code, 130);
    EXPECT_EQ(outcome.err, "qkv explain: interrupted\n");
  }
}

TEST(Program, InterruptionEndsTheWaitForALine) {
  const TinyBert bert;
  const std::string ids_model = QKV_TEST_DATA "/golden/translate/relu", tokenizer = bert / "tokenizer.json";
  const std::vector<std::pair<std::vector<std::string>, std::string>> programs = {
      {{"embed", "--model", bert / ""}, "a b"},
      {{"translate", "--model", ids_model, "--ids"}, "20 19 0"},
      {{"tokenizer", "encode", "--tokenizer", tokenizer}, "a b"},
      {{"tokenizer", "decode", "--tokenizer", tokenizer}, "1 2"}};
  for (const auto& [arguments, line] : programs) {
    for (const int signal : {SIGINT, SIGTERM}) {
      RunningProgram program(arguments);
      program.write(line + "\n");
      EXPECT_NE(program.read_line(), "") << arguments[0];  // it waits for the next line now, or is about to
      program.write("half a line");
      const Outcome outcome = program.end(signal);
      const std::string name = arguments[0] == "tokenizer" ? "qkv tokenizer " + arguments[1] : "qkv " + arguments[0];
      expect_message(outcome, 128 + signal, name, signal == SIGINT ? "interrupted\n" : "terminated\n");
    }
  }
}

// As with ulimit -f: a message and an exit code of our own, and nothing half-written.
TEST_F(Attend, FilesBeyondTheLimitOfTheSystem) {
  save_worked_example<float>();
  save<float>("q.npy", {4096, 3}, std::vector<float>(4096 * 3));
  const std::vector<std::string> before = folder_.names();
  expect_message(attend({}, {.file_size = 8192}), 4, "qkv attend", "o.npy: cannot write: File too large\n");
  EXPECT_EQ(folder_.names(), before);
}

}  // namespace
}  // namespace qkv::test
