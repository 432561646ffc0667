// A program that runs beside its test, which writes to it and reads from it as a user at a terminal does.
#pragma once

#include <sys/ioctl.h>

#include "apps/program.h"

namespace qkv::test {

class RunningProgram {
 public:
  // Input comes from write(), or from the open file `input`.
  explicit RunningProgram(const std::string& line, const std::string& folder = ".", int input = -1) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    fcntl(out[1], F_SETPIPE_SZ, 4096);  // what is not read soon stops the program
    process_ = fork();
    if (process_ == 0) {
      dup2(input < 0 ? in[0] : input, STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      dup2(open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      if (chdir(folder.c_str()) == 0) become_program(words_of(line));
      _exit(126);
    }
    close(in[0]), close(out[1]);
    input_ = in[1], output_ = out[0];
  }
  ~RunningProgram() {
    if (process_ > 0) end(SIGKILL);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void write(const std::string& text) { EXPECT_EQ(::write(input_, text.data(), text.size()), ssize_t(text.size())); }

  // Waits for a character of standard output; 0: there is none.
  char read_character() {
    char c = 0;
    return ::read(output_, &c, 1) == 1 ? c : '\0';
  }

  // Waits for a line of standard output; what there is at its end.
  std::string read_line() {
    std::string line;
    for (char c = 0; (c = read_character()) != 0 && c != '\n';) line += c;
    return line;
  }

  // Sends the signal, with standard input still open. A program that goes on nevertheless is killed in the end.
  Outcome end(int signal) {
    kill(process_, signal);
    int status = 0;
    constexpr int kPatience = 30'000;  // milliseconds
    for (int waited = 0; waitpid(process_, &status, WNOHANG) == 0; ++waited) {
      if (waited == kPatience) kill(process_, SIGKILL);
      usleep(1000);
    }
    process_ = 0;
    Outcome outcome{.code = exit_code(status), .out = {}, .err = slurp(folder_ / "err")};
    for (char c = 0; (c = read_character()) != 0;) outcome.out += c;
    close(input_), close(output_);
    return outcome;
  }

 private:
  TemporaryFolder folder_{};
  pid_t process_ = 0;
  int input_ = -1, output_ = -1;
};

// What the program writes on standard output, or on standard error, if that is a terminal of so many columns.
inline std::string shown_on_terminal(const std::string& line, Surroundings around, unsigned short columns = 0,
                                     std::string Surroundings::* stream = &Surroundings::output) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
  around.*stream = ptsname(terminal);
  const int held = open((around.*stream).c_str(), O_RDWR | O_NOCTTY);  // reading ends when the last holder lets go
  const winsize size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(ioctl(held, TIOCSWINSZ, &size), 0);
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
  });
  EXPECT_EQ(run_program(line, around).code, 0);
  close(held);
  reader.join();
  close(terminal);
  return text;
}

}  // namespace qkv::test
