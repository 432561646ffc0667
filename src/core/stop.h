// Asks whether a computation is to end (qkv/stop.h): in loops, so that a caller never waits long. Out of line, for
// kernels that are compiled for wide CPU targets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qkv/stop.h"

namespace qkv::inline core {

// What may be done between two questions, on one thread: multiply-adds, elements or bytes. The slowest target, the
// portable one, does 0.5 to 1 * 10^9 multiply-adds a second on a slow core: 17 to 34 ms.
inline constexpr std::int64_t kStopWork = std::int64_t{1} << 24;

// Stopped if a scope around this call asks for an end.
void check_stop();

// The innermost scope of this thread, nullptr for none.
const StopScope* stop_scope();

// Makes the scopes of another thread, which outlive this, those of this one: a thread that helps.
class AdoptedStopScope {
 public:
  explicit AdoptedStopScope(const StopScope* scope);
  ~AdoptedStopScope();
  AdoptedStopScope(const AdoptedStopScope&) = delete;
  AdoptedStopScope& operator=(const AdoptedStopScope&) = delete;

 private:
  const StopScope* before_;
};

// How often this thread has asked so far. Tests count by it.
std::int64_t stop_checks();

// Called at every question, before the answer; nullptr for nothing. For tests.
void set_stop_observer(void (*observer)());

// Asks at every 4096th turn, each of which is as little work as a token, or a row of a table.
class StopTurns {
 public:
  void next() {
    if (++turns_ % 4096 == 0) check_stop();
  }

 private:
  std::size_t turns_ = 0;
};

}  // namespace qkv::inline core
