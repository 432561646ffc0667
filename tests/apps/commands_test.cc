// What every command says of itself: its help, its page of the manual, and what each shell completes of it.
#include <poll.h>
#include <pty.h>

#include <regex>

#include "apps/running_program.h"

namespace qkv::test {
namespace {

struct Named {
  std::string words;  // "qkv bench attention"
  Outcome help;
};

// The program and every command: those that a help lists under "Commands". Each is asked once.
const std::vector<Named>& commands() {
  static const std::vector<Named> all = [] {
    std::vector<Named> found{{"qkv", run_program("--help")}};
    for (std::size_t i = 0; i < found.size(); ++i) {
      bool listed = false;
      const std::string before = found[i].words;
      for (const std::string& line : lines_of(found[i].help.out)) {
        if (listed && line.starts_with("  ") && line[2] != ' ') {
          const std::string words = before + " " + line.substr(2, line.find(' ', 2) - 2);
          found.push_back({words, run_program(words.substr(4) + " --help")});
        }
        listed = line.starts_with("Commands:") || (listed && line.starts_with("  "));
      }
    }
    return found;
  }();
  return all;
}

// The names of a command's options in its help, sorted: "  -h,--help   Print ...".
Words options_in(const std::string& help) {
  Words names;
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with("  -")) continue;
    std::istringstream listed(line.substr(2, line.find(' ', 2) - 2));
    for (std::string name; std::getline(listed, name, ',');) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Program, EveryCommandHasHelp) {
  std::string names;
  for (const Named& command : commands()) {
    const std::string& name = command.words;
    names += name + ", ";
    EXPECT_EQ(command.help.code, 0) << name;
    EXPECT_EQ(command.help.err, "") << name;
    EXPECT_TRUE(holds(command.help.out, "Usage: " + name + " ")) << command.help.out;
    const Words options = options_in(command.help.out);
    for (const char* option : {"--help", "-h", "--version"}) EXPECT_EQ(std::ranges::count(options, option), 1) << name;
  }
  EXPECT_GE(commands().size(), 15u);
  for (const char* name : {"qkv attend, ", "qkv train, ", "qkv tokenizer encode, "}) EXPECT_TRUE(holds(names, name));
  EXPECT_EQ(run_program("attend -h").out, run_program("attend --help").out);
  const std::string version = run_program("--version").out;
  EXPECT_TRUE(version.starts_with("qkv ")) << version;
  for (const std::string command : {"attend", "tokenizer encode"}) {
    EXPECT_EQ(run_program(command + " --version"), (Outcome{0, version, ""}));
  }
}

// Every command without commands of its own shows how it is called, and is called so: a command line that is right gets
// as far as the environment.
TEST(Program, EveryExampleOfTheHelpIsACommandLine) {
  for (const Named& command : commands()) {
    std::size_t examples = 0;
    for (const std::string& line : lines_of(run_program("COLUMNS=1000 " + command.words.substr(3) + " --help").out)) {
      const std::size_t begin = line.find("qkv ");
      if (!line.starts_with("    ") || line[4] == ' ' || begin == std::string::npos) continue;
      ++examples;
      EXPECT_LE(line.size(), 80u) << line;
      std::string words = line.substr(begin + 4);
      words = words.substr(0, std::min(words.find_first_of("<>&)"), words.size()));
      EXPECT_TRUE(holds(run_program("QKV_TARGET=none " + words).err, "none")) << line;
    }
    EXPECT_GE(examples, command.words == "qkv bench" || command.words == "qkv tokenizer" ? 0u : 1u) << command.words;
  }
}

// With a capital letter, or with a name that has none: f32, output:, tokenizer.json.
TEST(Program, DescriptionsOfOptionsBeginAlike) {
  constexpr std::size_t kColumn = 26;
  const std::regex beginning("[A-Z].*|[a-z]*[^a-z ].*|bool .*");
  for (const Named& command : commands()) {
    const Words lines = lines_of(run_program("COLUMNS=1000 " + command.words.substr(3) + " --help").out);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].starts_with("  -")) continue;
      const bool is_beside = lines[i].size() > kColumn && lines[i].substr(kColumn - 2, 2) == "  ";
      const std::string text = (is_beside ? lines[i] : lines[i + 1]).substr(kColumn);
      EXPECT_TRUE(std::regex_match(text, beginning)) << command.words << ": " << lines[i];
    }
  }
}

TEST(Program, HelpFitsTheTerminal) {
  const auto longest = [](const std::string& text) {
    std::size_t most = 0;
    for (const std::string& line : lines_of(text)) {
      if (!line.starts_with("    qkv ")) most = std::max(most, line.size() - (line.ends_with('\r') ? 1 : 0));
    }
    return most;
  };
  for (const std::string command : {"attend", "explain", "train", "bench"}) {
    const auto within = [&](const std::string& text, std::size_t columns) {
      EXPECT_LE(longest(text), columns) << text;
      EXPECT_GT(longest(text), columns - 15) << text;
    };
    within(run_program(command + " --help").out, 80);
    within(run_program("COLUMNS=60 " + command + " --help").out, 60);
    within(shown_on_terminal(command + " --help", {}, 72), 72);
    within(shown_on_terminal("COLUMNS=66 " + command + " --help", {}, 72), 66);
  }
  EXPECT_EQ(run_program("COLUMNS=x info --help"), run_program("info --help"));
}

TEST(Program, HelpHasGroupsInOneOrder) {
  expect_words(text_of("attend --help"),
               "Usage: qkv attend --query FILE ... Examples: ... Input: ... --query FILE ... Mask, bias and score: ... "
               "--causal top-left|bottom-right ... Output: ... --weights FILE ... Advanced: ... --threads N");
  expect_words(text_of("embed --help"),
               "Model: ... --weights f32|bf16|int8|int8_groups|q8|q4 ... Advanced: ... --precision");
  expect_words(text_of("generate --help"), "Search and sampling: ... --beams N ... Output: ... --score FILE");
  const std::string help = text_of("--help");
  std::size_t at = 0;
  for (const char* command : {"explain", "attend", "translate", "train", "info", "manual"}) {
    const std::size_t found = help.find(std::string("\n  ") + command + " ");
    EXPECT_GT(found, at) << command;
    at = found;
  }
}

// The tables of the documents are those of the manual.
TEST(Manual, HasTheTablesOfTheDocuments) {
  const Folder folder;
  folder.text("manual --out pages");
  const auto words = [](std::string text) {
    std::erase(text, '`');
    std::erase(text, '\\');
    return text;
  };
  const std::string page =
      words(std::regex_replace(slurp(folder / "pages/qkv.1"), std::regex(R"(\\f.|\\&|\\\(ti)"), ""));
  for (const char* document : {"environment", "exit_codes"}) {
    std::size_t rows = 0;
    for (const std::string& line : lines_of(slurp(QKV_SOURCE_DIR "/docs/" + std::string(document) + ".md"))) {
      const std::size_t middle = line.find(" | ");
      if (!line.starts_with("| ") || line.starts_with("| ---") || middle == std::string::npos || ++rows == 1) continue;
      const std::string row = words("\n" + line.substr(2, middle - 2) + "\n" +
                                    line.substr(middle + 3, line.rfind(" |") - middle - 3) + "\n");
      EXPECT_TRUE(holds(page, row)) << row;
    }
    EXPECT_GE(rows, 7u) << document;
  }
  for (const char* title : {"EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"}) {
    EXPECT_TRUE(holds(page, std::string("\n.SH ") + title + "\n")) << title;
  }
  EXPECT_FALSE(holds(slurp(folder / "pages/qkv-plan.1"), "HF_HUB_CACHE"));  // it reads no model
}

// A page as it is read: its requests dropped, its characters in place of their names.
std::string plain(std::string page) {
  const std::pair<const char*, const char*> characters[] = {{R"(\\f.|\\&)", ""}, {R"(\\-)", "-"},
                                                            {R"(\\\(aq)", "'"},  {R"(\\\(ga)", "`"},
                                                            {R"(\\\(ha)", "^"},  {R"(\\\(ti)", "~"}};
  for (const auto& [name, character] : characters) page = std::regex_replace(page, std::regex(name), character);
  return page;
}

// Formatters read the pages in tests/packages.
TEST(Manual, EveryCommandHasAPageWithItsOptions) {
  const Folder folder;
  EXPECT_EQ(folder.text("manual --out of/pages"), "");
  const auto page_of = [&](const std::string& name) { return plain(slurp(folder / ("of/pages/" + name + ".1"))); };
  for (const Named& command : commands()) {
    std::string name = command.words;
    std::ranges::replace(name, ' ', '-');
    const std::string page = page_of(name);
    EXPECT_TRUE(holds(page, "\n.SH NAME\n" + name + " - ")) << name;
    EXPECT_TRUE(holds(page, "\n.SH SYNOPSIS\n" + command.words + " ")) << page;
    for (const std::string& option : options_in(command.help.out)) {
      EXPECT_TRUE(holds(page, "\n.TP\n" + option) || holds(page, ", " + option)) << name << " " << option;
    }
  }
  EXPECT_EQ(folder.files().size(), commands().size() + 2);  // and two folders
  const std::string attend = page_of("qkv-attend"), program = page_of("qkv");
  expect_words(
      attend, "\nqkv attend --query FILE --key FILE --value FILE --out FILE [OPTIONS]\n ... \n.SH NOTES\nArrays: .npy");
  expect_words(
      attend,
      "\n--top-keys FILE\noutput: the keys of the largest weights of each row, i64 [..., heads, q_len, n]. Needs "
      "--top-weights. Not with --html.\n");
  expect_words(program, "\n.SH COMMANDS\n ... Exit codes: 0 success ... .BR qkv-attend (1)");
}

// A shell at a terminal, to which a test types as a user does.
class Shell {
 public:
  // In `folder`, which is the home, too. qkv is a function there that prints the words it gets, each in <>.
  Shell(const std::string& command, const std::string& folder, const std::string& function,
        const std::string& completions) {
    const winsize size{.ws_row = 50, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    process_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (process_ == 0) {
      for (const char* name : {"HOME", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}) setenv(name, folder.c_str(), 1);
      setenv("TERM", "dumb", 1);
      Words words = words_of(command);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      if (chdir(folder.c_str()) == 0) execvp(argv.front(), argv.data());
      _exit(127);
    }
    type(function + "\n" + completions + "\n");
    type("qkv 'the beginning'\n");
    wait_for("<the beginning><end>");
  }
  ~Shell() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(terminal_);
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  // The words of the command line that these keys make: "<attend><--causal>".
  std::string words(const std::string& keys) {
    shown_.clear();
    type("qkv " + keys + "\n");
    wait_for("<end>");
    const std::size_t end = shown_.find("<end>"), line = shown_.rfind('\n', end), begin = shown_.find('<', line);
    return shown_.substr(begin, end - begin);
  }

 private:
  void type(const std::string& keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  void wait_for(const std::string& text) {
    while (!holds(shown_, text)) {
      char buffer[4096];
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      constexpr int kPatience = 60'000;  // milliseconds
      const ssize_t count = poll(&ready, 1, kPatience) == 1 ? read(terminal_, buffer, sizeof buffer) : 0;
      if (count <= 0) throw std::runtime_error("the shell shows no " + text + ":\n" + shown_);
      shown_.append(buffer, static_cast<std::size_t>(count));
    }
  }

  pid_t process_ = 0;
  int terminal_ = -1;
  std::string shown_{};
};

struct OfAShell {
  std::string name, arguments, function, before;
};

class Completions : public testing::TestWithParam<OfAShell> {};

INSTANTIATE_TEST_SUITE_P(
    , Completions,
    testing::Values(OfAShell{"bash", " --norc --noprofile -i", "qkv() { printf '<%s>' \"$@\" end; echo; }",
                             "bind 'set enable-bracketed-paste off'; "},
                    OfAShell{"zsh", " -f -i", "qkv() { printf '<%s>' \"$@\" end; echo }",
                             "autoload -Uz compinit; compinit -u -D; "},
                    OfAShell{"fish", " -N -i", "function qkv; printf '<%s>' $argv end; echo; end", ""}),
    [](const auto& shell) { return shell.param.name; });

// The same keys in each shell; a tab completes.
TEST_P(Completions, OfWhatIsTyped) {
  const auto& [name, arguments, function, before] = GetParam();
  if (std::system(("command -v " + name + " >/dev/null").c_str()) != 0) GTEST_SKIP() << name << " is not installed";
  const Folder folder;
  folder.put("the script", folder.text("completions " + name));
  for (const char* file : {"query of mine.npy", "one.png", "two.png", "model.txt"}) folder.put(file, "");
  std::filesystem::create_directory(folder / "model_folder");
  Shell shell(name + arguments, folder.path(), function, before + "source './the script'");
  const std::pair<const char*, const char*> cases[] = {
      {"att\t", "<attend>"},
      {"bench mat\t--dt\tf6\t", "<bench><matmul><--dtype><f64>"},
      {"tokenizer tr\t--voc\t", "<tokenizer><train><--vocab>"},
      {"train --conf\t", "<train><--config>"},
      {"--vers\t", "<--version>"},
      {"completions fi\t", "<completions><fish>"},
      {"attend --cau\tb\t", "<attend><--causal><bottom-right>"},
      {"attend --causal t\t--dtype b\t", "<attend><--causal><top-left><--dtype><bf16>"},
      {"attend --query qu\t", "<attend><--query><query of mine.npy>"},
      {"explain --input qu\t", "<explain><--input><query of mine.npy>"},
      {"web --model mo\t", "<web><--model><model_folder>"},
      {"classify --image one.png tw\t--js\t", "<classify><--image><one.png><two.png><--json>"},
      {"info --threads o\t", "<info><--threads><o>"},  // a number is no file
      {"translate o\t", "<translate><o>"}};            // nor is a sentence
  for (const auto& [keys, words] : cases) {
    std::string found = shell.words(keys);
    if (const std::size_t slash = found.rfind("/>"); slash != std::string::npos) found.erase(slash, 1);
    EXPECT_EQ(found, words);
  }
}

TEST(CompletionsOfBash, KnowEveryOptionOfTheHelp) {
  const Folder folder;
  std::string script = folder.text("completions bash");
  for (const Named& command : commands()) {
    script += "COMP_WORDS=(" + command.words + " -) COMP_CWORD=" + std::to_string(words_of(command.words).size()) +
              "\n_qkv\necho \"${COMPREPLY[@]}\"\n";
  }
  ASSERT_EQ(std::system(("bash '" + folder.put("script", script) + "' >'" + (folder / "out") + "'").c_str()), 0);
  const Words lines = lines_of(slurp(folder / "out"));
  ASSERT_EQ(lines.size(), commands().size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Words offered = words_of(lines[i]);
    std::sort(offered.begin(), offered.end());
    EXPECT_EQ(offered, options_in(commands()[i].help.out)) << commands()[i].words;
  }
}

}  // namespace
}  // namespace qkv::test
