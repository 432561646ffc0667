// How many threads have so much to do that waking them pays.
#pragma once

#include <cstdint>

namespace qkv::inline core {

// What a thread must get, to be woken for it: some ten microseconds of either, twice what waking costs.
struct LeastShare {
  double multiply_adds = 500'000;
  double bytes = 256 << 10;
};

// At most `threads` (0: threads()), at least 1. The bytes are those that are read or written.
int worth_waking(int threads, double multiply_adds, double bytes);

// For tests, which share out less than is worth it.
void set_least_share(const LeastShare& share);

}  // namespace qkv::inline core
