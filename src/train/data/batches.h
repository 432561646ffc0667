// Examples in batches of about one cost, those of like length together, in an order drawn anew for each epoch; and the
// random numbers of a training.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/random.h"
#include "qkv/train/examples.h"

namespace qkv::training {

using Batches = std::vector<std::vector<std::uint32_t>>;  // numbers of examples

// Every example once. The costs of a batch add up to at most `most`, or it has one example.
Batches make_batches(const ExampleSet& examples, std::int64_t most, std::uint64_t seed, std::uint64_t epoch);

// Which streams of random numbers (random.h) training draws from: one for each purpose and use, so that no draw
// depends on another, and none on where training was interrupted.
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
