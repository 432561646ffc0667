#include "kernels/amx_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qkv {
namespace {

#if defined(__x86_64__) && defined(__linux__)

bool ask_for_tiles() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool tiles = (d >> 24 & 1) != 0 && (d >> 22 & 1) != 0;  // AMX-TILE, AMX-BF16
  if (!tiles || !__builtin_cpu_supports("avx512bf16")) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool ask_for_tiles() { return false; }

#endif

}  // namespace

bool has_amx() {
  static const bool has = ask_for_tiles();
  return has;
}

}  // namespace qkv
