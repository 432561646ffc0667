// The program.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "commands.h"

namespace {

// A file that the program opens must not get the number of a standard stream: messages would go into it. Reading and
// writing still fail where input or output is closed; messages without a reader are lost.
bool open_closed_streams() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    const bool is_closed = fcntl(stream, F_GETFD) < 0 && errno == EBADF;
    if (is_closed && open("/dev/null", kModes[stream]) != stream) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!open_closed_streams()) {
    std::perror("qkv: /dev/null");
    return qkv::app::kInputOutput;
  }
  return qkv::app::run_program(argc, argv, qkv::app::add_commands);
}
