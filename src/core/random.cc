// Philox, and the stream of random numbers drawn from it.
#include "qkv/random.h"

#include <cmath>
#include <numbers>

#include "core/mathematics.h"

namespace qkv {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t key, int rounds) {
  auto key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

std::uint32_t Random::bits() {
  if (used_ == 4) {
    block_ = philox({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32),
                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                    seed_);
    ++counter_;
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Random::below(std::uint64_t bound) {
  const std::uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound: drawing again below it removes the bias
  for (;;) {
    const std::uint64_t high = bits();
    const std::uint64_t word = high << 32 | bits();
    if (word >= rejected) return word % bound;
  }
}

double Random::uniform() {
  const std::uint64_t high = bits();
  return static_cast<double>((high << 32 | bits()) >> 11) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * log(1 - uniform()));
  return radius * cos(2 * std::numbers::pi * uniform());
}

}  // namespace qkv
