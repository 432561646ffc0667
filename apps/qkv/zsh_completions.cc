// Completions of zsh: for each command what its function _arguments reads, with the help beside each option.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command_line.h"
#include "completions.h"

namespace qkv::app {
namespace {

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
  if (option.several && values_of(option.type).files) text += "        '*:FILE:_files' \\\n";
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
  for (const OptionHelp& option : command.options) add_option(option, text);
  if (!command.commands.empty()) text += "        '1: :{ _describe command inner }' \\\n";
  return text + "        && return 0\n      ;;\n";
}

}  // namespace

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

}  // namespace qkv::app
