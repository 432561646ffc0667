// Polls a stop token, throws Stopped, and counts the checks of a thread.
#include "core/stop.h"

#include "qkv/error.h"

namespace qkv::inline core {
namespace {

thread_local std::int64_t checks = 0;

}  // namespace

void check_stop(const std::stop_token* stop) {
  ++checks;
  if (stop != nullptr && stop->stop_requested()) throw Stopped();
}

std::int64_t stop_checks() { return checks; }

}  // namespace qkv::inline core
