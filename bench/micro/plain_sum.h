// Reads memory as fast as a plain loop can: what decoding is compared with.
#pragma once

#include <cstdint>
#include <span>

#include "qkv/tensor.h"

namespace qkv::bench {

using Words = std::span<const std::uint64_t>;

inline Words words_of(const TensorView& view) {
  const std::size_t bytes = static_cast<std::size_t>(view.element_count()) * size_of(view.dtype());
  return {reinterpret_cast<const std::uint64_t*>(view.bytes()), bytes / sizeof(std::uint64_t)};
}

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif
inline std::uint64_t
sum_of(const std::uint64_t* words, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

}  // namespace qkv::bench
