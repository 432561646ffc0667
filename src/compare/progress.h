// How far a comparison is, told to its observer.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "qkv/compare.h"

namespace qkv::comparison {

// Work is counted in tokens of training. Safe for concurrent calls.
class Progress {
 public:
  Progress(CompareObserver* observer, double total) : observer_(observer), total_(total) {}

  void add(double work, const std::string& doing) { advance(work, doing, true); }
  // What an earlier call had done: it says nothing of the speed.
  void skip(double work, const std::string& doing) { advance(work, doing, false); }

 private:
  void advance(double work, const std::string& doing, bool counts) {
    const std::lock_guard lock(mutex_);
    (counts ? done_ : skipped_) += work;
    if (observer_ == nullptr) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double left = std::max(0.0, total_ - done_ - skipped_);
    observer_->receive(
        {.doing = doing, .done = 1 - left / total_, .seconds_left = done_ > 0 ? seconds / done_ * left : 0});
  }

  CompareObserver* observer_;
  const double total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  double done_ = 0, skipped_ = 0;
};

}  // namespace qkv::comparison
