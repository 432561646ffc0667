// Seeds of the examples of a run.
#pragma once

#include <cstdint>

#include "qkv/random.h"

namespace qkv::comparison {

// Examples for training, for what the loop validates, and for measuring have nothing in common, whatever the seed.
enum class Use : std::uint64_t { training, validation, measuring };

inline std::uint64_t seed_for(Use use, std::uint64_t seed) {
  Random random(seed, static_cast<std::uint64_t>(use));
  const std::uint64_t high = random.bits();
  return high << 32 | random.bits();
}

}  // namespace qkv::comparison
