// The processor time of this thread alone, so that other programs' turns on the processor do not count.
#pragma once

#include <ctime>

namespace qkv::bench {

inline double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double seconds_of(const Work& work) {
  const double begin = processor_seconds();
  work();
  return processor_seconds() - begin;
}

}  // namespace qkv::bench
