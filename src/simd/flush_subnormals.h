// Arithmetic that counts subnormal numbers as 0, operands and results, as that of TDPBF16PS does.
#pragma once

#include <cstdint>

namespace qkv::inline simd {

// As long as it lives, of vectors and scalars of its thread, where the CPU has a mode for it: all of x86-64, aarch64.
// Results are looked at after rounding; on aarch64 before, so that 2^-126 as rounded from below is 0 there.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(mode()) { set_mode(before_ | kFlush); }
  ~FlushSubnormals() { set_mode(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
// The clobber keeps loads and stores, and so the arithmetic between them, on their side.
#if defined(__x86_64__)
  using Mode = std::uint32_t;
  static constexpr Mode kFlush = 0x8040;  // MXCSR: results, operands
  static Mode mode() {
    Mode now;
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    return now;
  }
  static void set_mode(Mode next) { __asm__ volatile("ldmxcsr %0" : : "m"(next) : "memory"); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kFlush = 1 << 24;  // FPCR.FZ
  static Mode mode() {
    Mode now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    return now;
  }
  static void set_mode(Mode next) { __asm__ volatile("msr fpcr, %0" : : "r"(next) : "memory"); }
#else
  using Mode = int;
  static constexpr Mode kFlush = 0;
  static Mode mode() { return 0; }
  static void set_mode(Mode) {}
#endif

  const Mode before_;
};

}  // namespace qkv::inline simd
