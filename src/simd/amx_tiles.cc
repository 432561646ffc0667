// Asks the CPU and the kernel for AMX tiles, and sets them up for a thread.
#include "simd/amx_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qkv::inline simd {
namespace {

#if defined(__x86_64__) && defined(__linux__)

// Of arch_prctl: ARCH_GET_XCOMP_SUPP, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA.
constexpr long kSupported = 0x1021, kPermission = 0x1023, kTileData = 18;

bool find_tiles() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool tiles = (d >> 24 & 1) != 0 && (d >> 22 & 1) != 0;  // AMX-TILE, AMX-BF16
  std::uint64_t lent = 0;
  return tiles && __builtin_cpu_supports("avx512bf16") && syscall(SYS_arch_prctl, kSupported, &lent) == 0 &&
         (lent >> kTileData & 1) != 0;
}

bool ask_for_tiles() { return has_amx() && syscall(SYS_arch_prctl, kPermission, kTileData) == 0; }

#else

bool find_tiles() { return false; }
bool ask_for_tiles() { return false; }

#endif

}  // namespace

bool has_amx() {
  static const bool has = find_tiles();
  return has;
}

bool borrow_tiles() {
  static const bool lent = ask_for_tiles();
  return lent;
}

}  // namespace qkv::inline simd
