// Catches SIGINT, SIGTERM, SIGXCPU and SIGBUS, and wakes whoever waits for input.
#include "signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <system_error>
#include <thread>

#include "commands.h"
#include "io/files/descriptor.h"
#include "qkv/error.h"

namespace qkv::app {
namespace {

std::stop_source& stop_source() {
  static std::stop_source source;
  return source;
}

std::atomic<int> signal_received = 0;

// Can be read from the first signal on: it wakes whoever waits for input.
int wake_descriptor = -1;

// True once the descriptor is ready for this, false if it was not for `at_most`.
bool wait_for(int descriptor, short event, std::optional<std::chrono::milliseconds> at_most) {
  pollfd ready[] = {{descriptor, event, 0}, {wake_descriptor, POLLIN, 0}};
  const int milliseconds = at_most ? static_cast<int>(at_most->count()) : -1;
  const int events = io::retry([&] { return poll(ready, 2, milliseconds); });
  if (events < 0) throw IoError("cannot wait for standard input or output", errno);
  check_interruption();
  return events > 0;
}

// What was being computed needs the bytes that are gone: nothing of it can go on.
void end_without_bytes(int) {
  constexpr std::string_view kMessage =
      "qkv: a mapped file was cut short or cannot be read: panels of a model, which qkv pack rebuilds\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kInputOutput);
}

}  // namespace

// A thread of its own waits for the signals, because a handler may neither lock nor allocate. All threads that start
// later leave the signals to this one.
void watch_signals() {
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has seen enough ends the program quietly, whoever started it
  std::signal(SIGBUS, end_without_bytes);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is an error of write(), after which we clean up
  wake_descriptor = eventfd(0, EFD_CLOEXEC);
  if (wake_descriptor < 0) throw IoError("cannot watch for signals", errno);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGXCPU);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::thread([ends, source = stop_source()]() mutable {
    int signal = 0;
    sigwait(&ends, &signal);
    signal_received = signal;
    source.request_stop();
    eventfd_write(wake_descriptor, 1);
    sigdelset(&ends, SIGXCPU);  // comes again each second, up to the hard limit
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
    while (true) pause();
  }).detach();
}

std::stop_token interruption() { return stop_source().get_token(); }

void check_interruption() {
  if (stop_source().stop_requested()) throw Stopped();
}

bool wait_to_read(int descriptor, std::optional<std::chrono::milliseconds> at_most) {
  return wait_for(descriptor, POLLIN, at_most);
}

void write_output(std::string_view text) {
  constexpr std::size_t kPipePart = PIPE_BUF;  // so much a pipe takes at once where it takes any
  while (!text.empty()) {
    wait_for(STDOUT_FILENO, POLLOUT, {});
    const ssize_t written =
        io::retry([&] { return ::write(STDOUT_FILENO, text.data(), std::min(text.size(), kPipePart)); });
    if (written < 0) throw IoError("standard output: " + std::system_category().message(errno), errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void flush_output() {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout;
  if (!failed) return;
  const int number = errno != 0 ? errno : EIO;  // streams that failed before do not say why
  throw IoError("standard output: " + std::generic_category().message(number), number);
}

int interrupted_exit_code() { return 128 + signal_received; }

const char* interrupted_message() {
  return signal_received == SIGTERM   ? "terminated"
         : signal_received == SIGXCPU ? "the limit on processor time is reached"
                                      : "interrupted";
}

}  // namespace qkv::app
