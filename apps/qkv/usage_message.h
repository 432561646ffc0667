// What the command line's parser finds wrong, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace qkv::app {

// "qkv bench attention"
std::string full_name(const CLI::App& command);

// One line that says what is wrong with the words for `command`, and where its help is.
std::string usage_message(const CLI::App& program, const CLI::App& command, const CLI::ParseError& error);

}  // namespace qkv::app
