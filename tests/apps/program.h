// Runs the built program as a shell would, and gives its tests a folder of their own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace qkv::test {

inline const std::string kIdsModel = QKV_TEST_DATA "/golden/translate/relu";  // no tokenizer; 41 tokens, 32 positions

// A folder that disappears with its owner.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "qkv_apps_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // The path of a file with these bytes.
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  // Names of all files inside, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      list.push_back(entry.path().filename().string());
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Outcome {
  int code = 0;  // as a shell reports it: 128 + n if signal n ended the program
  std::string out;
  std::string err;
};

struct Surroundings {
  std::vector<std::string> environment{};  // "NAME=value", beside the test's own
  std::string output{};                    // where standard output goes; empty: it is captured; "-": it is closed
  std::string input{};                     // file that standard input comes from; empty: the test's own
  int interrupt_after_ms = 0;              // sends `signal` then; 0: never
  bool interrupt_once_watched = false;     // sends `signal` once the program has taken it over
  int signal = SIGINT;
  std::size_t memory = 0;          // bytes of memory of its own that it may have; 0: any number
  bool heeds_permissions = false;  // of files, even where the test runs as root
  std::size_t file_size = 0;       // bytes that a file may have, as with ulimit -f; 0: any number
};

// To call in a process of its own, which becomes the program.
[[noreturn]] inline void become_program(const std::vector<std::string>& arguments) {
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
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:") && (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0) return;
    }
    usleep(1000);
  }
}

inline Outcome run_program(const std::vector<std::string>& arguments, const Surroundings& surroundings = {}) {
  const TempFolder folder;
  const std::string out = surroundings.output.empty() ? folder / "out" : surroundings.output;
  const std::string err = folder / "err";
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& variable : surroundings.environment) putenv(const_cast<char*>(variable.c_str()));
    if (!surroundings.input.empty()) dup2(open(surroundings.input.c_str(), O_RDONLY), STDIN_FILENO);
    if (surroundings.memory > 0) {
      const rlimit limit{surroundings.memory, surroundings.memory};
      setrlimit(RLIMIT_DATA, &limit);
    }
    if (surroundings.file_size > 0) {
      const rlimit limit{surroundings.file_size, surroundings.file_size};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (surroundings.heeds_permissions) {
      for (const int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) prctl(PR_CAPBSET_DROP, capability);
    }
    close(STDOUT_FILENO);
    if (out != "-") open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int err_file = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(err_file, STDERR_FILENO);
    close(err_file);
    become_program(arguments);
  }
  if (surroundings.interrupt_after_ms > 0) {
    usleep(static_cast<useconds_t>(surroundings.interrupt_after_ms) * 1000);
    kill(child, surroundings.signal);
  }
  if (surroundings.interrupt_once_watched) {
    wait_until_watched(child, surroundings.signal);
    kill(child, surroundings.signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = surroundings.output.empty() ? contents(out) : "";
  outcome.err = contents(err);
  return outcome;
}

// The program ended with `code`, and its only message was one line that begins with `begin` and holds `part`.
inline void expect_message(const Outcome& outcome, int code, const std::string& begin, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with(begin + ": ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

}  // namespace qkv::test
