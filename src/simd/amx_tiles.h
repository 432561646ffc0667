// The tiles of Intel's AMX: eight registers of 16 rows of 64 bytes, and the product of two of them in bf16 (Intel 64
// and IA-32 Software Developer's Manual, TDPBF16PS). Instructions are named to the assembler, so that no function has
// to be compiled for a CPU that has them.
#pragma once

#include <cstdint>

namespace qkv::inline simd {

// Whether this CPU has tiles and bf16, and pairs of bf16 in its vectors, and the operating system lends tiles.
bool has_amx();

// Asks the operating system for them, for all threads of the process; once, as signals need larger stacks from then on.
// Whether it lends them.
bool borrow_tiles();

#ifdef __x86_64__

// All eight registers whole, as long as it lives, on its thread.
class TileSession {
 public:
  TileSession() { __asm__ volatile("ldtilecfg %0" : : "m"(kWhole)); }
  ~TileSession() { __asm__ volatile("tilerelease"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

 private:
  struct alignas(64) Configuration {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64);
  static constexpr Configuration kWhole{1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
};

template <int kTile>
inline void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// Rows `step` floats apart.
template <int kTile>
inline void load_tile(const float* from, std::int64_t step) {
  __asm__ volatile("tileloadd (%0,%1,4), %%tmm%c2" : : "r"(from), "r"(step), "i"(kTile) : "memory");
}

template <int kTile>
inline void store_tile(float* to, std::int64_t step) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,4)" : : "r"(to), "r"(step), "i"(kTile) : "memory");
}

// sum[i][j] += sum over words w of the pairs left[i][w] . right[w][j]: the even products by themselves and the odd
// ones, each fused in the order of w, then both together. Subnormal operands and results count as 0.
template <int kSum, int kLeft, int kRight>
inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

#endif  // __x86_64__

}  // namespace qkv::inline simd
