// Prints Highway's name of the best target that this CPU runs and the kernels know (the portable one if none), and, where
// the CPU has no tiles, what leaves them out of the kernels.
#include <hwy/targets.h>

#include <cstdio>

#include "simd/amx_tiles.h"

int main() {
  const auto usable = hwy::SupportedTargets();
#if HWY_ARCH_X86
  std::fputs(usable & HWY_AVX3 ? "HWY_AVX3" : usable & HWY_AVX2 ? "HWY_AVX2" : "HWY_SSE4", stdout);
#else
  std::fputs(usable & HWY_NEON ? "HWY_NEON" : "HWY_SCALAR", stdout);
#endif
  if (!qkv::has_amx()) std::fputs(";QKV_WITHOUT_TILES", stdout);
}
