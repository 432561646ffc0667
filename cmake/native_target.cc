// Prints Highway's name of the best target that this CPU runs and the kernels know; none for the portable one alone.
#include <hwy/targets.h>

#include <cstdio>

int main() {
  const auto usable = hwy::SupportedTargets();
#if HWY_ARCH_X86
  std::fputs(usable & HWY_AVX3 ? "HWY_AVX3" : usable & HWY_AVX2 ? "HWY_AVX2" : "HWY_SSE4", stdout);
#else
  std::fputs(usable & HWY_NEON ? "HWY_NEON" : "HWY_SCALAR", stdout);
#endif
}
