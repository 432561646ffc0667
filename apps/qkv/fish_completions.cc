// Completions of fish: a line for each command and option, with the help beside it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completions.h"

namespace qkv::app {
namespace {

// In the quotes of fish, which knows backslashes in them.
std::string fish_quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return word + "'";
}

std::string value_options(const OptionHelp& option) {
  if (option.type.empty()) return "";
  const Values values = values_of(option.type);
  if (!values.words.empty()) return fmt::format(" -x -a '{}'", fmt::join(values.words, " "));
  if (values.files) return " -r -F";
  return values.folders ? " -x -a '(__fish_complete_directories)'" : " -x";
}

void add_lines_of(const OptionHelp& option, const std::string& condition, std::string& text) {
  if (option.is_positional()) {
    const std::vector<std::string> words = values_of(option.type).words;
    if (!words.empty()) text += fmt::format("complete -c qkv -n '{}' -a '{}'\n", condition, fmt::join(words, " "));
    return;
  }
  text += fmt::format("complete -c qkv -n '{}'", condition);
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  text += value_options(option) + " -d " + fish_quoted(option.text) + "\n";
  if (option.several && values_of(option.type).files) {
    text += fmt::format("complete -c qkv -n '{}; and __qkv_after {}' -F\n", condition, fmt::join(option.names, " "));
  }
}

}  // namespace

std::string fish_completions(const CommandHelp& program) {
  std::string text = R"(# Completions of qkv in fish, as "qkv completions fish" prints them.
# Whether the command line begins with these commands.
function __qkv_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    if test $last -gt 1
        test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
    end
end
# Whether nothing follows them.
function __qkv_only
    __qkv_at $argv; and test (count (commandline -opc)) -eq (math 1 + (count $argv))
end
# Whether the last option is one of these.
function __qkv_after
    set -l options (string match -r -- '^-.*' (commandline -opc))
    contains -- "$options[-1]" $argv
end
complete -c qkv -f
)";
  for (const CommandHelp* command : with_inner(program)) {
    const std::string condition =
        (command->commands.empty() ? "__qkv_at" : "__qkv_only") + command->line.substr(program.line.size());
    for (const CommandHelp& inner : command->commands) {
      text += fmt::format("complete -c qkv -n '{}' -a {} -d {}\n", condition, inner.word(), fish_quoted(inner.text));
    }
    for (const OptionHelp& option : command->options) add_lines_of(option, condition, text);
  }
  return text;
}

}  // namespace qkv::app
