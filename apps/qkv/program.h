// What main gives to every subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <stop_token>

namespace qkv::app {

// A command line that cannot be meant: UsageError("--window", "3 must be two numbers, LEFT,RIGHT"). Exit code 2.
using UsageError = CLI::ValidationError;

// Asks for an end once the user has pressed Ctrl-C. For every computation that can take long.
std::stop_token interruption();

// Throws Stopped once the user has pressed Ctrl-C. For loops that take long by themselves.
void check_interruption();

}  // namespace qkv::app
