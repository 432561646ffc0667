// qkv completions: what each shell makes of what a user types.
#include "apps/commands_of_help.h"
#include "apps/shell.h"

namespace qkv::test {
namespace {

bool is_installed(const std::string& program) {
  return std::filesystem::exists("/bin/" + program) || std::filesystem::exists("/usr/bin/" + program);
}

std::string without_slash(std::string words) {
  const std::size_t slash = words.rfind("/>");
  return slash == std::string::npos ? words : words.erase(slash, 1);
}

// The same keys in each shell; a tab completes.
void expect_completions(const std::vector<std::string>& command, const std::string& function,
                        const std::string& before = "") {
  const TempFolder folder;
  const std::string& name = command.front();
  const Outcome script = run_program({"completions", name});
  ASSERT_EQ(script.code, 0) << script.err;
  folder.put("script of " + name, script.out);
  for (const char* file : {"query of mine.npy", "one.png", "two.png", "model.txt"}) folder.put(file, "");
  std::filesystem::create_directory(folder / "model_folder");
  Shell shell(command, folder / "", function, before + "source './script of " + name + "'");
  EXPECT_EQ(shell.words("att\t"), "<attend>");
  EXPECT_EQ(shell.words("bench mat\t--dt\tf6\t"), "<bench><matmul><--dtype><f64>");
  EXPECT_EQ(shell.words("tokenizer tr\t--voc\t"), "<tokenizer><train><--vocab>");
  EXPECT_EQ(shell.words("train --conf\t"), "<train><--config>");
  EXPECT_EQ(shell.words("--vers\t"), "<--version>");
  EXPECT_EQ(shell.words("completions fi\t"), "<completions><fish>");
  EXPECT_EQ(shell.words("attend --cau\tb\t"), "<attend><--causal><bottom-right>");
  EXPECT_EQ(shell.words("attend --causal t\t--dtype b\t"), "<attend><--causal><top-left><--dtype><bf16>");
  EXPECT_EQ(shell.words("attend --query qu\t"), "<attend><--query><query of mine.npy>");
  EXPECT_EQ(shell.words("explain --input qu\t"), "<explain><--input><query of mine.npy>");
  EXPECT_EQ(without_slash(shell.words("web --model mo\t")), "<web><--model><model_folder>");
  EXPECT_EQ(shell.words("classify --image one.png tw\t--js\t"), "<classify><--image><one.png><two.png><--json>");
  EXPECT_EQ(shell.words("info --threads o\t"), "<info><--threads><o>");  // a number is no file
  EXPECT_EQ(shell.words("translate o\t"), "<translate><o>");             // nor is a sentence
}

TEST(Completions, Bash) {
  expect_completions({"bash", "--norc", "--noprofile", "-i"}, "qkv() { printf '<%s>' \"$@\" end; echo; }",
                     "bind 'set enable-bracketed-paste off'; ");
}

TEST(Completions, Zsh) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  expect_completions({"zsh", "-f", "-i"}, "qkv() { printf '<%s>' \"$@\" end; echo }",
                     "autoload -Uz compinit; compinit -u -D; ");
}

TEST(Completions, Fish) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  expect_completions({"fish", "-N", "-i"}, "function qkv; printf '<%s>' $argv end; echo; end");
}

TEST(Completions, BashKnowsEveryOptionOfTheHelp) {
  const TempFolder folder;
  std::string script = run_program({"completions", "bash"}).out;
  const auto all = commands();
  for (const auto& command : all) {
    script += "COMP_WORDS=(qkv";
    for (const std::string& word : command) script += " " + word;
    script += " -) COMP_CWORD=" + std::to_string(command.size() + 1) + "\n_qkv\necho \"${COMPREPLY[@]}\"\n";
  }
  ASSERT_EQ(std::system(("bash '" + folder.put("script", script) + "' >'" + (folder / "out") + "'").c_str()), 0);
  std::ifstream out(folder / "out");
  for (const auto& command : all) {
    std::string line;
    std::getline(out, line);
    std::istringstream words(line);
    std::vector<std::string> offered{std::istream_iterator<std::string>(words), {}};
    std::sort(offered.begin(), offered.end());
    EXPECT_EQ(offered, options_of(command)) << (command.empty() ? "qkv" : command.back());
  }
}

TEST(Completions, OtherShellsAreRefused) {
  expect_message(run_program({"completions", "ksh"}), 2, "qkv completions", "\"ksh\" must be one of bash|zsh|fish");
  expect_message(run_program({"completions"}), 2, "qkv completions", "shell is required");
}

}  // namespace
}  // namespace qkv::test
