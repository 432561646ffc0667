// What a shell offers while a command line of the program is typed.
#pragma once

#include <string>
#include <vector>

#include "command_help.h"

namespace qkv::app {

// What may be typed for a value, as its type in the help says.
struct Values {
  bool files = false, folders = false;
  std::vector<std::string> words;  // a few, of which one is chosen
};
Values values_of(const std::string& type);

// A command and all in it.
std::vector<const CommandHelp*> with_inner(const CommandHelp& command);

// A script for each shell.
std::string bash_completions(const CommandHelp& program);
std::string zsh_completions(const CommandHelp& program);
std::string fish_completions(const CommandHelp& program);

}  // namespace qkv::app
