// How a host program may have set the processor: it flushes subnormal numbers, rounds another way or traps.
#pragma once

#if defined(__x86_64__) || defined(__aarch64__)

#include <cfenv>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qkv::testing {

// What a host program sets, for as long as it lives.
class HostEnvironment {
 public:
  enum class Kind { flushes, flushes_and_rounds_up, traps };
  explicit HostEnvironment(Kind kind) {
    std::fegetenv(&before_);
    if (kind == Kind::flushes_and_rounds_up) std::fesetround(FE_UPWARD);
    if (kind == Kind::traps) {
      std::feclearexcept(FE_ALL_EXCEPT);
      feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
      return;
    }
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ
#else
    std::uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    asm volatile("msr fpcr, %0" : : "r"(control | std::uint64_t{1} << 24));
#endif
  }
  ~HostEnvironment() { std::fesetenv(&before_); }

  // A twenty-fifth, less what it is rounded to nearest.
  static float quotient_less_nearest() {
    volatile float one = 1, divisor = 25;
    return one / divisor - 0x1.47ae14p-5f;
  }
  // The product of two numbers that is subnormal, or 0 where such products are flushed.
  static float subnormal() {
    volatile float small = 1e-20f;
    return small * small;
  }

 private:
  std::fenv_t before_;
};

}  // namespace qkv::testing

#endif
