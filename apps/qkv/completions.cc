// qkv completions: what the help says as a script that completes command lines in a shell.
#include "completions.h"

#include <memory>

#include "commands.h"
#include "signals.h"

namespace qkv::app {

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

std::vector<const CommandHelp*> with_inner(const CommandHelp& command) {
  std::vector<const CommandHelp*> all{&command};
  for (const CommandHelp& inner : command.commands) {
    for (const CommandHelp* one : with_inner(inner)) all.push_back(one);
  }
  return all;
}

void add_completions(Command& program) {
  using Script = std::string (*)(const CommandHelp&);
  const Names<Script> shells = {{"bash", bash_completions}, {"zsh", zsh_completions}, {"fish", fish_completions}};
  Command& command =
      program.add_command("completions", "Print a script that completes command lines of qkv in a shell");
  const auto script = std::make_shared<Script>();
  command.add({{"shell", choice(*script, shells), "the shell that reads it", required()}});
  command.add_footer(
      "bash: eval \"$(qkv completions bash)\"\nzsh, after compinit: eval \"$(qkv completions zsh)\"\n"
      "fish: qkv completions fish | source");
  command.on_run([&program, script] { write_output((*script)(program.help())); });
}

}  // namespace qkv::app
