// The program: its commands on one command line, and a function per command, which adds it with its options and what
// runs it.
#pragma once

#include <stdexcept>

#include "command_line.h"

namespace qkv::app {

void add_commands(Command& program);  // all of the others

void add_answer(Command& program);
void add_attend(Command& program);
void add_bench(Command& program);
void add_certify(Command& program);
void add_classify(Command& program);
void add_compare(Command& program);
void add_completions(Command& program);
void add_convert(Command& program);
void add_embed(Command& program);
void add_explain(Command& program);
void add_fill(Command& program);
void add_info(Command& program);
void add_manual(Command& program);
void add_pack(Command& program);
void add_plan(Command& program);
void add_rank(Command& program);
void add_tag(Command& program);
void add_tokenizer(Command& program);
void add_train(Command& program);
void add_generate(Command& program);
void add_translate(Command& program);
void add_web(Command& program);

// docs/exit_codes.md
enum ExitCode { kOk = 0, kInternal = 1, kUsage = 2, kBadData = 3, kInputOutput = 4, kParted = 5 };

// Results are not what they should be: exit code 5.
class Parted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs the command that the arguments name, among those that `add_commands` adds, and returns its exit code.
int run_program(int argc, char** argv, void (*add_commands)(Command&));

}  // namespace qkv::app
