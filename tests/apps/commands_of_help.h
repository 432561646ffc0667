// The commands and options of the program, as its help lists them.
#pragma once

#include "apps/program.h"

namespace qkv::test {

// The words behind "qkv" of every command: those that the help lists under "Subcommands", and theirs.
inline std::vector<std::vector<std::string>> commands(const std::vector<std::string>& of = {}) {
  std::vector<std::vector<std::string>> all{of};
  std::vector<std::string> arguments = of;
  arguments.push_back("--help");
  std::istringstream help(run_program(arguments).out);
  std::string line;
  while (std::getline(help, line) && !line.starts_with("Subcommands:")) {
  }
  while (std::getline(help, line) && line.starts_with("  ")) {
    if (line[2] == ' ') continue;  // the rest of a description
    std::vector<std::string> words = of;
    words.push_back(line.substr(2, line.find(' ', 2) - 2));
    for (const auto& command : commands(words)) all.push_back(command);
  }
  return all;
}

// The names of a command's options in its help, sorted: "  -h,--help   Print ...".
inline std::vector<std::string> options_of(std::vector<std::string> command) {
  command.push_back("--help");
  std::istringstream help(run_program(command).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream listed(line.substr(2, line.find(' ', 2) - 2));
    for (std::string name; std::getline(listed, name, ',');) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace qkv::test
