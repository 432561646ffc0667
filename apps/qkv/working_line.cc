// The line of a terminal that says that work goes on.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "core/share.h"
#include "figures.h"
#include "notes.h"

namespace qkv::app {

struct WorkingLine::Line {
  explicit Line(std::string text) : doing(std::move(text)), thread([this] { show(); }) {}
  ~Line() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    ending.notify_all();
    thread.join();
  }
  void show();

  std::string doing;
  std::atomic<int> percent{0};
  ShareScope share{[this](double done) { percent = static_cast<int>(100 * done); }};
  std::mutex mutex{};
  std::condition_variable ending{};
  bool ended = false;
  std::thread thread;  // uses the others
};

void WorkingLine::Line::show() {
  constexpr std::chrono::seconds kTurn{1};
  std::unique_lock lock(mutex);
  int seconds = 0;
  while (!ending.wait_for(lock, kTurn, [this] { return ended; })) {
    fmt::print(stderr, "\r\x1b[K{}, {}{} s", doing, percent > 0 ? fmt::format("{} %, ", percent.load()) : "",
               ++seconds);
    std::fflush(stderr);
  }
  if (seconds > 0) fmt::print(stderr, "\r\x1b[K");
}

WorkingLine::WorkingLine(std::string doing) {
  if (!is_quiet() && isatty(STDERR_FILENO) != 0) line_ = std::make_unique<Line>(one_line(std::move(doing)));
}

WorkingLine::~WorkingLine() = default;

}  // namespace qkv::app
