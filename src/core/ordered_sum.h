// Ordered sum: makes threads add their shares of a sum in one fixed order, whichever thread computes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "qkv/error.h"

namespace qkv::inline core {

// Per sum, how many shares have been added. A share waits for its predecessors, which must have been begun before it,
// so that the wait ends.
class OrderedSums {
 public:
  explicit OrderedSums(std::int64_t sums) : done_(std::make_unique<std::atomic<std::int64_t>[]>(sums)) {}

  // Stopped if another thread has given up.
  void wait_for(std::int64_t sum, std::int64_t predecessors) const {
    while (done_[sum].load(std::memory_order_acquire) < predecessors) {
      if (abandoned_.load(std::memory_order_relaxed)) throw Stopped();
      std::this_thread::yield();
    }
  }
  void finish(std::int64_t sum) { done_[sum].fetch_add(1, std::memory_order_release); }
  void abandon() { abandoned_ = true; }

 private:
  std::unique_ptr<std::atomic<std::int64_t>[]> done_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace qkv::inline core
