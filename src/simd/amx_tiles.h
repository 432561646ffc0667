// The tiles of Intel's AMX: eight registers of 16 rows of 64 bytes, and the products of two of them in bf16 and in
// bytes (Intel 64 and IA-32 Software Developer's Manual, TDPBF16PS and TDPBUSD). Instructions are named to the
// assembler, so that no function has to be compiled for a CPU that has them.
#pragma once

#include <cstdint>

namespace qkv::inline simd {

// Whether this CPU has tiles and bf16, and pairs of bf16 in its vectors, and the operating system lends tiles.
bool has_amx();

// Whether they multiply bytes, too.
bool has_byte_tiles();

// Asks the operating system for them, for all threads of the process; once, as signals need larger stacks from then on.
// Whether it lends them.
bool borrow_tiles();

#ifdef __x86_64__

// Of each register the bytes of a row, and the rows: at most 64 and 16.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64);

inline constexpr TileShapes kWholeTiles{.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

// The registers in these shapes, as long as it lives, on its thread.
class TileSession {
 public:
  explicit TileSession(const TileShapes& shapes = kWholeTiles) { __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); }
  ~TileSession() { __asm__ volatile("tilerelease"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

template <int kTile>
inline void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// Rows `step` elements apart.
template <int kTile, class T>
inline void load_tile(const T* from, std::int64_t step) {
  __asm__ volatile("tileloadd (%0,%1,%c3), %%tmm%c2" : : "r"(from), "r"(step), "i"(kTile), "i"(sizeof(T)) : "memory");
}

template <int kTile, class T>
inline void store_tile(T* to, std::int64_t step) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,%c3)" : : "r"(to), "r"(step), "i"(kTile), "i"(sizeof(T)) : "memory");
}

// sum[i][j] += sum over words w of the pairs left[i][w] . right[w][j]: the even products by themselves and the odd
// ones, each fused in the order of w, then both together. Subnormal operands and results count as 0.
template <int kSum, int kLeft, int kRight>
inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

// sum[i][j] += sum over words w of the four products left[i][w] . right[w][j] of bytes, those of left without a sign:
// whole numbers of 32 bits.
template <int kSum, int kLeft, int kRight>
inline void multiply_byte_tiles() {
  __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

// The same as a type, in place of which another may emulate them. Rows are `step` floats apart.
struct Tiles {
  template <int kTile>
  static void clear() {
    clear_tile<kTile>();
  }
  template <int kTile>
  static void load(const float* from, std::int64_t step) {
    load_tile<kTile>(from, step);
  }
  template <int kTile>
  static void store(float* to, std::int64_t step) {
    store_tile<kTile>(to, step);
  }
  template <int kSum, int kLeft, int kRight>
  static void multiply() {
    multiply_tiles<kSum, kLeft, kRight>();
  }
};

#endif  // __x86_64__

}  // namespace qkv::inline simd
