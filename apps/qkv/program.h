// The program: its commands on one command line.
#pragma once

#include "command_line.h"

namespace qkv::app {

// Runs the command that the arguments name, among those that `add_commands` adds. The exit code: docs/exit_codes.md.
int run_program(int argc, char** argv, void (*add_commands)(Command&));

}  // namespace qkv::app
