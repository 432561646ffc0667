// The floating-point environment that everything is computed in, whatever the caller's is: rounding to nearest,
// subnormal numbers as they are, no traps. A host program may have set another one (a library linked with -ffast-math
// does), and the pool's threads have that of whichever thread started them.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

#include <cstdint>

namespace qkv::inline core {

// Set for as long as the object lives, on this thread; then the caller's comes back.
class FloatEnvironment {
 public:
  FloatEnvironment() {
    read(callers_);
    if (!is_ours(callers_)) set_ours();
  }
  ~FloatEnvironment() {
    if (!is_ours(callers_)) write(callers_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  using Control = std::uint32_t;
  static constexpr Control kOurs = 0x1f80, kRaised = 0x3f;  // all traps masked; exceptions that were raised
  static void read(Control& control) { control = _mm_getcsr(); }
  static bool is_ours(Control control) { return (control & ~kRaised) == kOurs; }
  static void set_ours() { _mm_setcsr(kOurs); }
  static void write(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static void read(Control& control) { asm volatile("mrs %0, fpcr" : "=r"(control)); }
  static bool is_ours(Control control) { return control == 0; }
  static void set_ours() { write(0); }
  static void write(Control control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
#else
  using Control = std::fenv_t;
  static void read(Control& control) { std::fegetenv(&control); }
  static bool is_ours(const Control&) { return false; }
  static void set_ours() { std::fesetenv(FE_DFL_ENV); }
  static void write(const Control& control) { std::fesetenv(&control); }
#endif

  Control callers_;
};

}  // namespace qkv::inline core
