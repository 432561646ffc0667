// What the instructions of AMX do, one number at a time, for a thread whose tiles it keeps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd/pair_emulation.h"

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
  static void multiply() {
    const Numbers left = numbers_of(kLeft), right = numbers_of(kRight);
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) {
        float even = 0, odd = 0;
        for (int word = 0; word < kSide; ++word) {
          even = flushed(std::fma(left.lower[i * kSide + word], right.lower[word * kSide + j], even));
          odd = flushed(std::fma(left.upper[i * kSide + word], right.upper[word * kSide + j], odd));
        }
        float& sum = tiles_[kSum][i * kSide + j];
        sum = flushed(flushed(sum) + flushed(even + odd));
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
