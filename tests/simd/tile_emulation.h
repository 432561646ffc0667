// What the instructions of AMX do, one number at a time, for a thread whose tiles it keeps.
#pragma once

#include "simd/pair_emulation.h"

// Whoever emulates tiles has fused multiply-adds: without a call of a library each, and in vectors, the tests take a
// tenth of the time.
#if defined(__x86_64__) && defined(__clang__)
#define QKV_TEST_FUSED [[gnu::target("avx2,fma")]]
#elif defined(__x86_64__)
#define QKV_TEST_FUSED [[gnu::target("avx2,fma"), gnu::optimize("O3")]]
#else
#define QKV_TEST_FUSED
#endif

namespace qkv::testing {

class EmulatedTiles {
 public:
  template <int kTile>
  static void clear() {
    std::fill_n(tiles_[kTile], kSide * kSide, 0.0f);
  }
  template <int kTile>
  static void load(const float* from, std::int64_t step) {
    for (int row = 0; row < kSide; ++row) std::copy_n(from + row * step, kSide, tiles_[kTile] + row * kSide);
  }
  template <int kTile>
  static void store(float* to, std::int64_t step) {
    for (int row = 0; row < kSide; ++row) std::copy_n(tiles_[kTile] + row * kSide, kSide, to + row * step);
  }

  // TDPBF16PS (Intel 64 and IA-32 Software Developer's Manual).
  template <int kSum, int kLeft, int kRight>
  QKV_TEST_FUSED static void multiply() {
    const Numbers left = numbers_of(kLeft), right = numbers_of(kRight);
    for (int i = 0; i < kSide; ++i) {
      float even[kSide] = {}, odd[kSide] = {};
      for (int word = 0; word < kSide; ++word) {
        for (int j = 0; j < kSide; ++j) {
          even[j] = flushed(std::fma(left.lower[i * kSide + word], right.lower[word * kSide + j], even[j]));
          odd[j] = flushed(std::fma(left.upper[i * kSide + word], right.upper[word * kSide + j], odd[j]));
        }
      }
      for (int j = 0; j < kSide; ++j) {
        float& sum = tiles_[kSum][i * kSide + j];
        sum = flushed(flushed(sum) + flushed(even[j] + odd[j]));
      }
    }
  }

 private:
  static constexpr int kSide = 16;

  struct Numbers {
    float lower[kSide * kSide], upper[kSide * kSide];
  };
  static Numbers numbers_of(int tile) {
    Numbers numbers;
    for (int i = 0; i < kSide * kSide; ++i) {
      const Pair pair = of_pairs(tiles_[tile][i]);
      numbers.lower[i] = flushed(pair.lower);
      numbers.upper[i] = flushed(pair.upper);
    }
    return numbers;
  }

  static inline thread_local float tiles_[8][kSide * kSide];
};

}  // namespace qkv::testing
