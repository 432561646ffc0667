// The scopes of a thread, the question, and how often it was asked.
#include "core/stop.h"

#include <atomic>
#include <utility>

#include "qkv/error.h"

namespace qkv {
namespace {

thread_local constinit const StopScope* innermost = nullptr;
thread_local constinit std::int64_t checks = 0;
constinit std::atomic<void (*)()> stop_observer{nullptr};

}  // namespace

StopScope::StopScope(std::stop_token token) : token_(std::move(token)), around_(innermost) { innermost = this; }

StopScope::~StopScope() { innermost = around_; }

bool StopScope::stop_requested() const {
  for (const StopScope* scope = this; scope != nullptr; scope = scope->around_) {
    if (scope->token_.stop_requested()) return true;
  }
  return false;
}

inline namespace core {

void check_stop() {
  ++checks;
  if (const auto observer = stop_observer.load(std::memory_order_relaxed)) observer();
  if (innermost != nullptr && innermost->stop_requested()) throw Stopped();
}

const StopScope* stop_scope() { return innermost; }

AdoptedStopScope::AdoptedStopScope(const StopScope* scope) : before_(innermost) { innermost = scope; }

AdoptedStopScope::~AdoptedStopScope() { innermost = before_; }

std::int64_t stop_checks() { return checks; }

void set_stop_observer(void (*observer)()) { stop_observer = observer; }

}  // namespace core
}  // namespace qkv
