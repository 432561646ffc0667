/// \file
/// Counter-based random numbers: the same value for the same (seed, counter) on every machine and thread.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), Philox4x32.
#pragma once

#include <array>
#include <cstdint>

#include "qkv/api.h"

namespace qkv {

/// Philox4x32 with `rounds` rounds: 128 random bits from a 128-bit counter and a 64-bit key.
QKV_API std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key, int rounds = 10);

/// A stream of numbers drawn from philox(counter = 0, 1, 2 ..., key = seed). Streams with different numbers have
/// nothing in common: the upper half of the counter is the stream's.
class QKV_API Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  std::uint32_t bits();                      ///< uniform over 32 bits
  std::uint64_t below(std::uint64_t bound);  ///< uniform in [0, bound), bound > 0
  double uniform();                          ///< uniform in [0, 1), 53 bits
  double normal();                           ///< mean 0, variance 1 (Box-Muller)

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t counter_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace qkv
