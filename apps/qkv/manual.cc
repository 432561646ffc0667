// qkv manual: what the help says as manual pages, one of each command (man(7)).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "commands.h"
#include "help.h"
#include "io/files/descriptor.h"
#include "notes.h"
#include "qkv/files.h"
#include "qkv/version.h"

namespace qkv::app {
namespace {

// Text with characters escaped that mean something to the formatter.
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

constexpr Marks kMarks{bold, italic};

std::string about(const OptionHelp& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  return fmt::format(".TP\n{}{}\n{}\n", fmt::join(names, ", "), value_of(option, kMarks), roff(option.about()));
}

std::string examples_of(const CommandHelp& command) {
  std::string page = command.examples.empty() ? "" : ".SH EXAMPLES\n";
  for (const auto& [what, line] : command.examples) {
    page += fmt::format(".PP\n{}\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", roff(what), roff(line));
  }
  return page;
}

// The rows that concern the command.
std::string table_of(const CommandHelp& command, std::string_view title, std::span<const Meaning> table) {
  std::string page;
  for (const auto& [words, meaning, option] : table) {
    if (!option.empty() && !command.has(option)) continue;
    std::string text(meaning);
    std::erase(text, '`');
    page += fmt::format(".TP\n{}\n{}\n", bold(words), roff(text));
  }
  return page.empty() ? "" : fmt::format(".SH {}\n{}", title, page);
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
  page += ".SH SYNOPSIS\n" + usage(command, kMarks) + "\n";
  if (!command.commands.empty()) page += ".SH COMMANDS\n";
  std::string pages;
  for (const CommandHelp& inner : command.commands) {
    page += fmt::format(".TP\n{}\n{}\n", bold(inner.word()), roff(inner.text));
    pages += fmt::format("{}.BR {} (1)", pages.empty() ? "" : ",\n", roff(page_name(inner)));
  }
  page += examples_of(command) + ".SH OPTIONS\n";
  for (const OptionGroup& group : grouped(command.options)) {
    page += fmt::format(".SS {}\n", group.title);
    for (const OptionHelp& option : group.options) page += about(option);
  }
  if (!command.footer.empty()) page += ".SH NOTES\n" + lines_of(command.footer);
  page += table_of(command, "EXIT STATUS", exit_codes());
  page += table_of(command, "ENVIRONMENT", environment_variables());
  page += table_of(command, "FILES", files_of_program());
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
  command.add_examples({{"Write the pages and read one", "qkv manual --out pages && man -l pages/qkv.1"}});
  const auto folder = std::make_shared<std::string>();
  command.add({{"--out", file(*folder, "FOLDER"), "Where qkv.1, qkv-attend.1 ... are written", required()}});
  command.on_run([&program, folder] {
    io::create_folders(*folder);
    write_pages(program.help(), *folder);
    note_written(*folder, "man -l reads a page of it");
  });
}

}  // namespace qkv::app
