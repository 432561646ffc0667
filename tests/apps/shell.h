// A shell at a terminal, to which a test types as a user does.
#pragma once

#include <poll.h>
#include <pty.h>

#include "apps/program.h"

namespace qkv::test {

class Shell {
 public:
  // In `folder`, which is the home, too. qkv is a function there that prints the words it gets, each in <>.
  Shell(const std::vector<std::string>& command, const std::string& folder, const std::string& function,
        const std::string& completions) {
    const winsize size{.ws_row = 50, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    process_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (process_ == 0) {
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      for (const char* name : {"HOME", "ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}) setenv(name, folder.c_str(), 1);
      setenv("TERM", "dumb", 1);
      if (chdir(folder.c_str()) == 0) execvp(words.front(), words.data());
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
    while (shown_.find(text) == std::string::npos) {
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

}  // namespace qkv::test
