// Runs the built program as a shell would, in a folder of the test's own, and asks what it refuses.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/files_for_test.h"

namespace qkv::test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

// The words of a command line: 'some words' are one, @path is a path in the source.
inline Words words_of(const std::string& line) {
  Words all;
  std::istringstream rest(line);
  for (std::string word; rest >> std::quoted(word, '\'');) {
    all.push_back(word.starts_with('@') ? QKV_SOURCE_DIR "/" + word.substr(1) : word);
  }
  return all;
}

inline Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The text of the element of this name in a page; empty: there is none.
inline std::string element(const std::string& html, const std::string& id) {
  const std::string begin = "id=\"" + id + "\">";
  const std::size_t from = html.find(begin);
  if (from == std::string::npos) return "";
  return html.substr(from + begin.size(), html.find("</script>", from) - from - begin.size());
}

struct Outcome {
  int code = 0;  // as a shell reports it: 128 + n if signal n ended the program
  std::string out;
  std::string err;
  bool operator==(const Outcome&) const = default;
  friend std::ostream& operator<<(std::ostream& to, const Outcome& outcome) {
    return to << outcome.code << ": " << outcome.out << outcome.err;
  }
};

struct Surroundings {
  std::string folder{};       // where the program starts; empty: where the test is
  Words environment{};        // "NAME=value", beside the test's own
  std::string output{};       // where standard output goes; empty: it is captured; "-": it is closed
  std::string errors{};       // where standard error goes; empty: it is captured
  std::string input{};        // standard input
  int interrupted_by = 0;     // this signal, once the program has taken it over; 0: by none
  std::size_t memory = 0;     // bytes of memory of its own that it may have; 0: any number
  std::size_t file_size = 0;  // bytes that a file may have, as with ulimit -f; 0: any number
  std::size_t seconds = 0;    // of processor time, as with ulimit -S -t; 0: any number
  std::vector<int> closed{};  // descriptors
};

// To call in a process of its own, which becomes the program.
[[noreturn]] inline void become_program(const Words& arguments) {
  for (const int signal : {SIGINT, SIGTERM, SIGXCPU})
    ::signal(signal, SIG_DFL);  // whoever started the tests may ignore them
  std::vector<char*> argv{const_cast<char*>(QKV_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(QKV_PROGRAM, argv.data());
  _exit(127);
}

// Waits until the process has taken over the signal, or has ended; half a minute at most.
inline void wait_until_watched(pid_t process, int signal) {
  siginfo_t ended{};
  for (int waited = 0; waited < 30'000; ++waited) {
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0)
      return;
    const std::string status = slurp("/proc/" + std::to_string(process) + "/status"), blocked = "SigBlk:";
    const std::size_t at = status.find(blocked);
    if (at != std::string::npos && std::stoull(status.substr(at + blocked.size()), nullptr, 16) >> (signal - 1) & 1)
      return;
    usleep(1000);
  }
}

inline int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// NAME=VALUE before a command.
inline bool is_variable(const std::string& word) { return std::isupper(word[0]) != 0 && holds(word, "="); }

inline Outcome run_program(const std::string& line, Surroundings around = {}) {
  Words words = words_of(line);
  for (; !words.empty() && is_variable(words[0]); words.erase(words.begin())) around.environment.push_back(words[0]);
  if (words.size() > 1 && words[words.size() - 2] == "<<<") {  // a line of standard input, as in a shell
    around.input = words.back() + "\n";
    words.resize(words.size() - 2);
  }
  const TemporaryFolder folder;
  const std::string out = around.output.empty() ? folder / "out" : around.output;
  const pid_t child = fork();
  if (child == 0) {
    const auto limit = [](auto resource, std::size_t bytes) {
      const rlimit both{bytes, resource == RLIMIT_CPU ? RLIM_INFINITY : bytes};
      if (bytes > 0) setrlimit(resource, &both);
    };
    const auto become = [](int descriptor, const std::string& path, int flags) {
      const int file = open(path.c_str(), flags, 0600);
      dup2(file, descriptor);
      if (file != descriptor) close(file);
    };
    for (const std::string& variable : around.environment) putenv(const_cast<char*>(variable.c_str()));
    become(STDIN_FILENO, folder.put("in", around.input), O_RDONLY);
    become(STDERR_FILENO, around.errors.empty() ? folder / "err" : around.errors, O_WRONLY | O_CREAT);
    close(STDOUT_FILENO);
    if (out != "-") become(STDOUT_FILENO, out, O_WRONLY | O_CREAT);
    if (!around.folder.empty() && chdir(around.folder.c_str()) != 0) _exit(126);
    for (const int descriptor : around.closed) close(descriptor);
    limit(RLIMIT_DATA, around.memory);
    limit(RLIMIT_FSIZE, around.file_size);
    limit(RLIMIT_CPU, around.seconds);
    become_program(words);
  }
  if (around.interrupted_by > 0) {
    wait_until_watched(child, around.interrupted_by);
    kill(child, around.interrupted_by);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {exit_code(status), around.output.empty() ? slurp(out) : "",
          around.errors.empty() ? slurp(folder / "err") : ""};
}

inline Outcome succeed(const std::string& line, const Surroundings& around = {}) {
  const Outcome outcome = run_program(line, around);
  EXPECT_EQ(outcome.code, 0) << line << "\n" << outcome.err;
  return outcome;
}

// What a command without anything to complain about prints; notes of what it wrote are no complaints.
inline std::string text_of(const std::string& line, const Surroundings& around = {}) {
  const Outcome outcome = succeed(line, around);
  for (const std::string& said : lines_of(outcome.err)) EXPECT_TRUE(said.starts_with("wrote ")) << line << said;
  return outcome.out;
}

// A folder that disappears with its owner, in which the program runs.
struct Folder : TemporaryFolder {
  std::string path() const { return *this / ""; }

  // All files below, with their bytes.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    std::error_code loop;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      all[entry.path()] = entry.is_regular_file(loop) ? slurp(entry.path()) : "";
    }
    return all;
  }

  Outcome run(const std::string& line, Surroundings around = {}) const {
    around.folder = path();
    return run_program(line, around);
  }
  std::string text(const std::string& line, Surroundings around = {}) const {
    around.folder = path();
    return text_of(line, around);
  }
  Json json(const std::string& line) const { return Json::parse(text(line), nullptr, false); }
};

// The program ended with `code`, and its only message was one line of `command` that holds `part`, or is it.
inline void expect_message(const Outcome& outcome, int code, const std::string& command, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with(command + ": ") && outcome.err.ends_with('\n')) << outcome.err;
  EXPECT_EQ(outcome.err.ends_with(" (see " + command + " --help)\n"), code == 2) << outcome.err;
  EXPECT_TRUE(part.starts_with("qkv ") ? outcome.err == part + "\n" : holds(outcome.err, part)) << outcome.err << part;
}

// That the text holds these words, several with " ... " between them. Where they are "/path = value" or "/path #
// number", it is JSON in which the path of a JSON pointer has this value, or so many elements.
inline void expect_words(const std::string& text, std::string words) {
  const std::string separator = " ... ";
  const std::size_t first = words.find(separator);
  if (first != std::string::npos) {
    expect_words(text, words.substr(first + separator.size()));
    words.resize(first);
  }
  if (words.starts_with('/')) {
    const std::size_t end = words.find(' ');
    const Json found = Json::parse(text).at(Json::json_pointer(words.substr(0, end)));
    EXPECT_EQ(words[end + 1] == '#' ? Json(found.size()) : found, Json::parse(words.substr(end + 3))) << words;
  } else {
    EXPECT_TRUE(holds(text, words)) << words << " in " << text;
  }
}

// What a command line answers: its exit code, and words of what it prints, or of its message where it is refused.
struct Answer {
  std::string line;
  int code;
  std::string words;  // of code 0 several, with " ... " between them
};

// Nothing is written anywhere by what is refused.
inline void expect_answers(const Folder& folder, const std::string& before, const std::vector<Answer>& answers) {
  auto files = folder.files();
  for (const auto& [line, code, words] : answers) {
    SCOPED_TRACE(before + line);
    if (code == 0) {
      expect_words(folder.text(before + line), words);
      files = folder.files();
      continue;
    }
    Words command = words_of(before + line);
    while (is_variable(command[0])) command.erase(command.begin());
    const bool in_two = command[0] == "bench" || command[0] == "tokenizer";
    expect_message(folder.run(before + line), code, "qkv " + command[0] + (in_two ? " " + command[1] : ""), words);
    EXPECT_TRUE(folder.files() == files);
  }
}

}  // namespace qkv::test
