// What main gives to every subcommand.
#pragma once

#include <CLI/CLI.hpp>

namespace qkv::app {

// A command line that cannot be meant: UsageError("--window", "3 must be two numbers, LEFT,RIGHT"). Exit code 2.
using UsageError = CLI::ValidationError;

}  // namespace qkv::app
