// What a call allocates besides its inputs and outputs. What is made of masks, tables and offsets is counted where it
// is made, before that, so that a limit is kept; the rest is counted by the schedule of each pass, which chooses the
// threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/call/view_checks.h"

namespace qkv::inline attending {

inline constexpr std::size_t kSharedBytes = 2 * sizeof(void*);  // beside an object that is shared

// The memory limit of a call is too low for one thread.
struct MemoryLimitError : Refusal {
  using Refusal::Refusal;
};

class MemoryCount {
 public:
  // What a thread takes at most beside tiles and sums: copies of tasks, and lists of a few entries.
  static constexpr std::size_t kSmallBytes = 4096;

  MemoryCount() = default;
  // 0: no limit. std::invalid_argument below 0.
  explicit MemoryCount(std::int64_t limit) : limit_(static_cast<std::size_t>(limit)) {
    if (limit < 0) fail("memory_limit must be 0 (none) or more bytes, got {}", limit);
  }

  // Bytes that are kept until the call ends, and bytes that are needed for a while beside those kept so far.
  // MemoryLimitError if the limit does not allow them.
  void keep(std::size_t bytes) {
    kept_ += bytes;
    borrow(0);
  }
  void borrow(std::size_t bytes) {
    most_ = most_with(bytes);
    if (exceeds(most_)) refuse(most_);
  }

  std::size_t kept() const { return kept_; }

  // The most at a time of a call that takes so many bytes beside those kept.
  std::size_t most_with(std::size_t bytes) const { return std::max(most_, kept_ + bytes); }

  // As many of the threads as keep the limit, where workspace(n) are the bytes of n of them. MemoryLimitError if one
  // thread needs more.
  template <class Workspace>
  int threads_within(int threads, const Workspace& workspace) const {
    while (threads > 1 && exceeds(most_with(workspace(threads)))) --threads;
    if (exceeds(most_with(workspace(threads)))) refuse(most_with(workspace(threads)));
    return threads;
  }

 private:
  bool exceeds(std::size_t bytes) const { return limit_ > 0 && bytes > limit_; }
  [[noreturn]] void refuse(std::size_t bytes) const {
    throw MemoryLimitError(
        "attention",
        fmt::format("one thread needs {} bytes besides inputs and outputs, memory_limit is {}", bytes, limit_));
  }

  std::size_t limit_ = 0, kept_ = 0, most_ = 0;
};

}  // namespace qkv::inline attending
