// The program's own documentation: commands and options as help and manual pages show them, and the tables of exit
// codes, environment variables and files that both have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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
  // The text, and how the option goes with others.
  std::string about() const;
};

// A command line as a reader types it.
struct Example {
  std::string what, line;
};

struct CommandHelp {
  std::string line;  // "qkv bench attention"
  std::string text, footer;
  std::vector<Example> examples;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;

  std::string word() const { return line.substr(line.rfind(' ') + 1); }
  bool has(std::string_view option) const;
};

// Options under a heading: what is read, the model, masks, what is written, the rest.
struct OptionGroup {
  std::string_view title;
  std::vector<OptionHelp> options;
};
std::vector<OptionGroup> grouped(const std::vector<OptionHelp>& options);

// A word or more, and what they mean.
struct Meaning {
  std::string_view words, meaning;
  std::string_view option{};  // commands with it are concerned; empty: all
};
std::span<const Meaning> environment_variables();
std::span<const Meaning> files_of_program();
std::span<const Meaning> exit_codes();

// The name of the closest one, if a slip of the keys could have made the word of it; else nothing.
std::string_view closest(std::string_view word, std::span<const std::string> names);

// How names and values are marked in a text.
struct Marks {
  std::string (*name)(std::string_view), (*value)(std::string_view);
};
std::string value_of(const OptionHelp& option, const Marks& marks);
// "qkv attend --query FILE [OPTIONS]"
std::string usage(const CommandHelp& command, const Marks& marks);

// The help of a command in lines of at most `width` columns.
std::string help_text(const CommandHelp& command, std::int64_t width);

}  // namespace qkv::app
