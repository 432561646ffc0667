// Completions of bash: one function, which finds the command, then the option that the word belongs to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "completions.h"

namespace qkv::app {
namespace {

// What the function does for a value: which words or names of files there are, and how many values may follow.
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

}  // namespace

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

}  // namespace qkv::app
