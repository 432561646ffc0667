// Which streams of random numbers (random.h) training draws from: one for each purpose and use, so that no draw
// depends on another, and none on where training was interrupted.
#pragma once

#include <cstdint>

#include "qkv/random.h"

namespace qkv::training {

enum class Purpose : std::uint64_t { weights = 1, shuffle = 2, dropout = 3 };

inline std::uint64_t stream(Purpose purpose, std::uint64_t index) {
  return static_cast<std::uint64_t>(purpose) << 56 | index;
}

// A seed of its own for each index.
inline std::uint64_t seed_of(std::uint64_t seed, Purpose purpose, std::uint64_t index) {
  Random random(seed, stream(purpose, index));
  const std::uint64_t high = random.bits();
  return high << 32 | random.bits();
}

}  // namespace qkv::training
