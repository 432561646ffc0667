// How many threads have so much to do that waking them pays.
#pragma once

#include <cstdint>

namespace qkv::inline core {

// What a thread must get, to be woken for it: some twenty microseconds of either, what waking costs on a virtual
// machine.
struct LeastShare {
  double multiply_adds = 1'000'000;
  double bytes = 512 << 10;
};

// At most `threads` (0: threads()), at least 1. The bytes are those that are read or written.
int worth_waking(int threads, double multiply_adds, double bytes);
// The same of a call that others follow at once: the threads that are awake take part, however little it is.
int worth_sharing(int threads, double multiply_adds, double bytes);

// For tests, which share out less than is worth it.
void set_least_share(const LeastShare& share);

}  // namespace qkv::inline core
