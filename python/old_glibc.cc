// What gcc's objects take of a newer glibc than the 2.28 that a wheel is linked for.
#include <malloc.h>
#include <pthread.h>

#include <ctime>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the older mallinfo

extern "C" {

// 2.32: whether counting references may do without atomic operations. Other threads are always possible.
char __libc_single_threaded = 0;

// 2.30. The wait ends by the clock of the day, as that of libstdc++ does where this function is missing.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now, end;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  constexpr long kSecond = 1'000'000'000;
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (end.tv_nsec < 0) end.tv_nsec += kSecond, --end.tv_sec;
  if (end.tv_nsec >= kSecond) end.tv_nsec -= kSecond, ++end.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &end);
}

// 2.33. The older one counts in 32 bits.
struct mallinfo2 mallinfo2() {
  const struct mallinfo old = ::mallinfo();
  const auto wide = [](int bytes) { return static_cast<std::size_t>(static_cast<unsigned>(bytes)); };
  return {.arena = wide(old.arena),
          .ordblks = wide(old.ordblks),
          .smblks = wide(old.smblks),
          .hblks = wide(old.hblks),
          .hblkhd = wide(old.hblkhd),
          .usmblks = wide(old.usmblks),
          .fsmblks = wide(old.fsmblks),
          .uordblks = wide(old.uordblks),
          .fordblks = wide(old.fordblks),
          .keepcost = wide(old.keepcost)};
}

}  // extern "C"
