// qkv manual: a page of each command, with what its help says. Formatters read the pages in tests/packages.
#include "apps/commands_of_help.h"

namespace qkv::test {
namespace {

// The page as it is read: its requests dropped, its characters in place of their names.
std::string plain(const std::string& page) {
  std::string text;
  for (std::size_t at = 0; at < page.size(); ++at) {
    const std::string_view rest = std::string_view(page).substr(at);
    if (rest.starts_with("\\f")) {
      at += 2;
    } else if (rest.starts_with("\\&")) {
      at += 1;
    } else if (rest.starts_with("\\-")) {
      text += '-', at += 1;
    } else if (rest.starts_with("\\(")) {
      const std::string_view name = rest.substr(2, 2);
      text += name == "aq" ? '\'' : name == "ga" ? '`' : name == "ha" ? '^' : name == "ti" ? '~' : '?';
      at += 3;
    } else {
      text += page[at];
    }
  }
  return text;
}

TEST(Manual, EveryCommandHasAPageWithItsOptions) {
  const TempFolder folder;
  const Outcome outcome = run_program({"manual", "--out", folder / "of/pages"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const auto all = commands();
  for (const auto& command : all) {
    std::string line = "qkv", name = "qkv";
    for (const std::string& word : command) line += " " + word, name += "-" + word;
    const std::string page = plain(contents(folder / ("of/pages/" + name + ".1")));
    EXPECT_NE(page.find("\n.SH NAME\n" + name + " - "), std::string::npos) << name;
    EXPECT_NE(page.find("\n.SH SYNOPSIS\n" + line + " "), std::string::npos) << page;
    for (const std::string& option : options_of(command)) {
      const bool is_first = page.find("\n.TP\n" + option) != std::string::npos;
      EXPECT_TRUE(is_first || page.find(", " + option) != std::string::npos) << name << " " << option;
    }
  }
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "of/pages")) pages += entry.is_regular_file();
  EXPECT_EQ(pages, all.size());
}

TEST(Manual, RulesAndFootersAreInThePage) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"manual", "--out", folder / ""}).code, 0);
  const std::string attend = plain(contents(folder / "qkv-attend.1"));
  EXPECT_NE(attend.find("\nqkv attend --query FILE --key FILE --value FILE --out FILE [OPTIONS]\n"), std::string::npos);
  EXPECT_NE(
      attend.find("\n--top-keys FILE\neach row's keys of largest weight to write, i64 [..., heads, q_len, n]. Needs "
                  "--top-weights. Not with --html.\n"),
      std::string::npos)
      << attend;
  EXPECT_NE(attend.find("\n.SH NOTES\nArrays: .npy"), std::string::npos);
  const std::string program = plain(contents(folder / "qkv.1"));
  EXPECT_NE(program.find("\n.SH COMMANDS\n"), std::string::npos);
  EXPECT_NE(program.find("Exit codes: 0 success"), std::string::npos);
  EXPECT_NE(program.find(".BR qkv-attend (1)"), std::string::npos);
}

TEST(Manual, AFolderThatCannotBeIsAnError) {
  const TempFolder folder;
  folder.put("file", "");
  expect_message(run_program({"manual", "--out", folder / "file/pages"}), 4, "qkv manual", "file");
}

}  // namespace
}  // namespace qkv::test
