// What the help says of a command and of its options, for manual pages and the completions of shells.
#pragma once

#include <string>
#include <vector>

namespace qkv::app {

struct OptionHelp {
  std::vector<std::string> names;  // "--beams", "--beam"; "text" of the words that belong to no option
  std::string type;                // "FILE", "f32|f64"; empty: a flag
  bool several = false;            // the words behind it are values too, up to an option
  bool repeated = false;           // may be given again
  bool required = false;
  std::string text;
  std::vector<std::string> needs, excludes;

  bool is_positional() const { return !names.front().starts_with('-'); }
};

struct CommandHelp {
  std::string line;  // "qkv bench attention"
  std::string text, footer;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;

  std::string word() const { return line.substr(line.rfind(' ') + 1); }
};

}  // namespace qkv::app
