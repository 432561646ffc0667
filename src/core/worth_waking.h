// How many threads have so much to do that waking them pays.
#pragma once

#include <algorithm>

#include "core/thread_pool.h"
#include "qkv/threads.h"

namespace qkv::inline core {

// What a thread must get, to be woken for it: some twenty microseconds of either, what waking costs on a virtual
// machine.
struct LeastShare {
  double multiply_adds = 1'000'000;
  double bytes = 512 << 10;
};
inline LeastShare least_share;

// At most `threads` (0: threads()), at least 1. The bytes are those that are read or written.
inline int worth_waking(int threads, double multiply_adds, double bytes) {
  if (threads <= 0) threads = qkv::threads();
  const double shares = std::max(multiply_adds / least_share.multiply_adds, bytes / least_share.bytes);
  return static_cast<int>(std::clamp<double>(shares, 1, threads));
}
// The same of a call that others follow at once: the threads that are awake take part, however little it is.
inline int worth_sharing(int threads, double multiply_adds, double bytes) {
  if (threads <= 0) threads = qkv::threads();
  return std::max(worth_waking(threads, multiply_adds, bytes), std::min(threads, 1 + awake_threads()));
}

// For tests, which share out less than is worth it.
inline void set_least_share(const LeastShare& share) { least_share = share; }

}  // namespace qkv::inline core
