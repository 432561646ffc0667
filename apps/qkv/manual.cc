// qkv manual: what the help says as manual pages, one of each command (man(7)).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "commands.h"
#include "qkv/files.h"
#include "qkv/version.h"

namespace qkv::app {
namespace {

// Text as a page shows it, whatever its characters mean to the formatter.
std::string roff(std::string_view text) {
  std::string page;
  for (const char c : text) {
    const bool starts_line = page.empty() || page.back() == '\n';
    if (starts_line && c == '.') page += "\\&";  // else a request
    switch (c) {
      case '\\':
        page += "\\e";
        break;
      case '-':
        page += "\\-";
        break;
      case '\'':
        page += "\\(aq";
        break;
      case '`':
        page += "\\(ga";
        break;
      case '^':
        page += "\\(ha";
        break;
      case '~':
        page += "\\(ti";
        break;
      default:
        page += c;
    }
  }
  return page;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string page_name(const CommandHelp& command) {
  std::string name = command.line;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string value_of(const OptionHelp& option) {
  if (option.type.empty()) return "";
  return " " + italic(option.type) + (option.several ? " ..." : "");
}

std::string synopsis(const CommandHelp& command) {
  std::string text = bold(command.line);
  if (!command.commands.empty()) text += " " + italic("COMMAND");
  for (const OptionHelp& option : command.options) {
    if (option.required && !option.is_positional()) text += " " + bold(option.names.front()) + value_of(option);
  }
  text += " [" + italic("OPTIONS") + "]";
  for (const OptionHelp& option : command.options) {
    if (!option.is_positional()) continue;
    const std::string words = italic(option.names.front()) + (option.several ? " ..." : "");
    text += option.required ? " " + words : " [" + words + "]";
  }
  return text;
}

std::string rules_of(const OptionHelp& option) {
  std::string text;
  if (option.required) text += " Required.";
  if (!option.needs.empty()) text += fmt::format(" Needs {}.", fmt::join(option.needs, ", "));
  if (!option.excludes.empty()) text += fmt::format(" Not with {}.", fmt::join(option.excludes, ", "));
  return text;
}

std::string about(const OptionHelp& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  const bool ends = option.text.ends_with('.') || option.text.ends_with(')');
  const std::string rules = rules_of(option);
  return fmt::format(".TP\n{}{}\n{}{}\n", fmt::join(names, ", "), value_of(option), roff(option.text),
                     roff((ends || rules.empty() ? "" : ".") + rules));
}

// Lines stay lines, as far from the margin as the spaces before them say.
std::string lines_of(const std::string& text) {
  std::string page;
  std::istringstream lines(text);
  bool follows = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    if (line.empty()) {
      page += ".PP\n";
    } else if (spaces > 0) {
      page += fmt::format(".RS {}\n{}\n.RE\n", spaces, roff(line.substr(spaces)));
    } else {
      page += (follows ? ".br\n" : "") + roff(line) + "\n";
    }
    follows = spaces == 0 && !line.empty();
  }
  return page;
}

std::string manual_page(const CommandHelp& command) {
  std::string upper = page_name(command);
  std::ranges::transform(upper, upper.begin(), [](char c) { return 'a' <= c && c <= 'z' ? c - 'a' + 'A' : c; });
  std::string page = fmt::format(".TH {} 1 \"\" \"qkv {}\" \"User Commands\"\n", roff(upper), version());
  page += ".ad l\n.nh\n";  // names are not cut
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(command)), roff(command.text));
  page += ".SH SYNOPSIS\n" + synopsis(command) + "\n";
  if (!command.commands.empty()) page += ".SH COMMANDS\n";
  std::string pages;
  for (const CommandHelp& inner : command.commands) {
    page += fmt::format(".TP\n{}\n{}\n", bold(inner.word()), roff(inner.text));
    pages += fmt::format("{}.BR {} (1)", pages.empty() ? "" : ",\n", roff(page_name(inner)));
  }
  page += ".SH OPTIONS\n";
  for (const OptionHelp& option : command.options) page += about(option);
  if (!command.footer.empty()) page += ".SH NOTES\n" + lines_of(command.footer);
  page += ".SH SEE ALSO\n" + (pages.empty() ? ".BR qkv (1)" : pages) + "\n";
  return page;
}

void write_pages(const CommandHelp& command, const std::filesystem::path& folder) {
  write_file((folder / (page_name(command) + ".1")).string(), manual_page(command));
  for (const CommandHelp& inner : command.commands) write_pages(inner, folder);
}

}  // namespace

void add_manual(Command& program) {
  Command& command = program.add_command("manual", "Write the manual pages of qkv and its commands");
  const auto folder = std::make_shared<std::string>();
  command.add({{"--out", file(*folder, "FOLDER"), "where qkv.1, qkv-attend.1 ... are written", required()}});
  command.on_run([&program, folder] {
    std::filesystem::create_directories(*folder);
    write_pages(program.help(), *folder);
  });
}

}  // namespace qkv::app
