// qkv completions: what the help says as a script that completes command lines in a shell, one for each of three
// shells.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "signals.h"

namespace qkv::app {
namespace {

// The words that complete a value, by its type in the help.
struct Values {
  bool files = false, folders = false;
  std::vector<std::string> words;  // a few, of which one is chosen
};

Values values_of(const std::string& type) {
  Values values;
  for (std::size_t begin = 0; begin < type.size();) {
    const std::size_t end = std::min(type.find('|', begin), type.size());
    const std::string part = type.substr(begin, end - begin);
    if (part == "FILE") {
      values.files = true;
    } else if (part == "FOLDER") {
      values.folders = true;
    } else if (part.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos) {
      values.words.push_back(part);
    }
    begin = end + 1;
  }
  return values;
}

// A command and all in it.
std::vector<const CommandHelp*> with_inner(const CommandHelp& command) {
  std::vector<const CommandHelp*> all{&command};
  for (const CommandHelp& inner : command.commands) {
    for (const CommandHelp* one : with_inner(inner)) all.push_back(one);
  }
  return all;
}

// Completions of bash: one function, which finds the command, then the option that the word belongs to.

// How the function completes a value: its words or file names, and the number of values that may follow.
std::string actions_for(const OptionHelp& option) {
  const Values values = values_of(option.type);
  std::string actions = option.several ? "count=1000" : "count=1";
  if (!values.words.empty()) actions += fmt::format(" values='{}'", fmt::join(values.words, " "));
  if (values.files || values.folders) actions += values.files ? " names=default" : " names=dirnames";
  return actions;
}

std::string case_of(const CommandHelp& command) {
  std::string options, words;
  std::map<std::string, std::string> patterns;  // by what is done for them
  for (const CommandHelp& inner : command.commands) words += (words.empty() ? "" : " ") + inner.word();
  for (const OptionHelp& option : command.options) {
    if (option.is_positional()) {
      words = fmt::format("{}", fmt::join(values_of(option.type).words, " "));
      continue;
    }
    options += fmt::format("{}{}", options.empty() ? "" : " ", fmt::join(option.names, " "));
    std::string& pattern = patterns[actions_for(option)];
    if (!option.type.empty())
      pattern += fmt::format("{}{}", pattern.empty() ? "" : " | ", fmt::join(option.names, " | "));
  }
  std::string text = fmt::format("    '{}')\n      options='{}'\n      words='{}'\n      case $option in\n",
                                 command.line, options, words);
  for (const auto& [actions, pattern] : patterns) {
    if (!pattern.empty()) text += fmt::format("        {}) {} ;;\n", pattern, actions);
  }
  return text + "      esac\n      ;;\n";
}

std::string bash_completions(const CommandHelp& program) {
  std::string lines, cases;
  for (const CommandHelp* command : with_inner(program)) {
    if (command != &program) lines += fmt::format("{}'{}'", lines.empty() ? "" : " | ", command->line);
    cases += case_of(*command);
  }
  return fmt::format(R"(# Completions of qkv in bash, as "qkv completions bash" prints them.
_qkv() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} line=qkv option='' after=0 i
  local options='' words='' count=0 values='' names=''
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      -?*) option=${{COMP_WORDS[i]}} after=0 ;;
      =) ;; # bash splits --option=value
      *) ((++after)) ;;
    esac
    case "$line ${{COMP_WORDS[i]}}" in
      {}) line+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  [[ $word != = ]] || word=''
  case $line in
{}  esac
  if [[ $word != -* ]] && ((after < count)); then
    [[ -z $names ]] || compopt -o "$names"
  elif [[ $word == -* || -z $words ]]; then
    values=$options
  else
    values=$words
  fi
  mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
}}
complete -F _qkv qkv
)",
                     lines, cases);
}

// Whether files may follow its first one.
bool takes_further_files(const OptionHelp& option) { return option.several && values_of(option.type).files; }

// Completions of zsh: for each command what its function _arguments reads, with the help of each option.

// With a backslash before each of these characters.
std::string with_escaped(const std::string& text, std::string_view characters) {
  std::string escaped;
  for (const char c : text)
    escaped += characters.find(c) == std::string_view::npos ? std::string(1, c) : std::string("\\") + c;
  return escaped;
}

// ":FILE:_files"
std::string value_part(const OptionHelp& option) {
  if (option.type.empty()) return "";
  const Values values = values_of(option.type);
  const std::string what = ":" + with_escaped(option.type, "\\:") + ":";
  if (!values.words.empty()) return fmt::format("{}({})", what, fmt::join(values.words, " "));
  if (values.files) return what + "_files";
  return what + (values.folders ? "_files -/" : " ");
}

void add_option(const OptionHelp& option, std::string& text) {
  if (option.is_positional()) {
    text += fmt::format("        {} \\\n", shell_word((option.several ? "*" : "1") + value_part(option)));
    return;
  }
  for (const std::string& name : option.names) {
    std::vector<std::string> excluded = option.excludes;
    for (const std::string& other : option.names) {
      if (other != name) excluded.push_back(other);
    }
    const bool again = option.several || option.repeated;
    std::string spec = excluded.empty() ? "" : fmt::format("({})", fmt::join(excluded, " "));
    spec += fmt::format("{}{}[{}]", again ? "*" : "", name, with_escaped(option.text, "\\[]"));
    text += fmt::format("        {} \\\n", shell_word(spec + value_part(option)));
  }
}

std::string zsh_case(const CommandHelp& command) {
  std::string text = fmt::format("    ('{}')\n", command.line);
  if (!command.commands.empty()) {
    text += "      inner=(\n";
    for (const CommandHelp& inner : command.commands) {
      text += fmt::format("        {}\n", shell_word(with_escaped(inner.word(), "\\:") + ":" + inner.text));
    }
    text += "      )\n";
  }
  text += "      _arguments \\\n";
  // There is one "*:" for what comes last: the files of an option that takes several go before texts.
  const bool has_files = std::ranges::any_of(
      command.options, [](const OptionHelp& option) { return !option.is_positional() && takes_further_files(option); });
  for (const OptionHelp& option : command.options) {
    if (!has_files || !option.is_positional() || !option.several) add_option(option, text);
  }
  if (has_files) text += "        '*:FILE:_files' \\\n";
  if (!command.commands.empty()) text += "        '1: :{ _describe command inner }' \\\n";
  return text + "        && return 0\n      ;;\n";
}

std::string zsh_completions(const CommandHelp& program) {
  std::string lines, cases;
  for (const CommandHelp* command : with_inner(program)) {
    if (command != &program) lines += fmt::format("{}'{}'", lines.empty() ? "" : "|", command->line);
    cases += zsh_case(*command);
  }
  return fmt::format(R"(#compdef qkv
# Completions of qkv in zsh, as "qkv completions zsh" prints them.
_qkv() {{
  local line=qkv
  local -a inner
  while (( CURRENT > 2 )); do
    case "$line $words[2]" in
      ({}) ;;
      (*) break ;;
    esac
    line+=" $words[2]"
    shift words
    (( --CURRENT ))
  done
  case $line in
{}  esac
  return 1
}}
if [[ $funcstack[1] == _qkv ]]; then _qkv "$@"; else compdef _qkv qkv; fi
)",
                     lines, cases);
}

// Completions of fish: a line for each command and option, with its help.

// In the quotes of fish, which knows backslashes in them.
std::string fish_quoted(const std::string& text) { return "'" + with_escaped(text, "'\\") + "'"; }

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
  if (takes_further_files(option)) {
    text += fmt::format("complete -c qkv -n '{}; and __qkv_after {}' -F\n", condition, fmt::join(option.names, " "));
  }
}

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

}  // namespace

void add_completions(Command& program) {
  using Script = std::string (*)(const CommandHelp&);
  const Names<Script> shells = {{"bash", bash_completions}, {"zsh", zsh_completions}, {"fish", fish_completions}};
  Command& command = program.add_command("completions", "Print shell completions for qkv");
  command.add_examples({{"In the start-up file of bash", "eval \"$(qkv completions bash)\""}});
  const auto script = std::make_shared<Script>();
  command.add({{"shell", choice(*script, shells), "The shell that reads it", required()}});
  command.add_footer(
      "bash: eval \"$(qkv completions bash)\"\nzsh, after compinit: eval \"$(qkv completions zsh)\"\n"
      "fish: qkv completions fish | source");
  command.on_run([&program, script] { write_output((*script)(program.help())); });
}

}  // namespace qkv::app
