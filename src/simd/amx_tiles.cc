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

// What the CPU can do with tiles: bits of a register of CPUID.
constexpr unsigned kBf16Tiles = 1u << 22, kTiles = 1u << 24, kByteTiles = 1u << 25;

bool has_features(unsigned features) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & features) == features;
}

bool find_tiles() {
#ifdef QKV_WITHOUT_TILES  // in the kernels of this build
  return false;
#endif
  std::uint64_t lent = 0;
  return has_features(kTiles | kBf16Tiles) && __builtin_cpu_supports("avx512bf16") &&
         syscall(SYS_arch_prctl, kSupported, &lent) == 0 && (lent >> kTileData & 1) != 0;
}

bool find_byte_tiles() { return has_amx() && has_features(kByteTiles); }

bool ask_for_tiles() { return has_amx() && syscall(SYS_arch_prctl, kPermission, kTileData) == 0; }

#else

bool find_tiles() { return false; }
bool find_byte_tiles() { return false; }
bool ask_for_tiles() { return false; }

#endif

}  // namespace

bool has_amx() {
  static const bool has = find_tiles();
  return has;
}

bool has_byte_tiles() {
  static const bool has = find_byte_tiles();
  return has;
}

bool borrow_tiles() {
  static const bool lent = ask_for_tiles();
  return lent;
}

}  // namespace qkv::inline simd
