// Computes the offsets of sequences from their lengths.
#include "qkv/layers/sequences.h"

#include <limits>

#include "core/refuse.h"

namespace qkv {

Tensor offsets_of(std::span<const std::int64_t> lengths) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  Tensor offsets = Tensor::zeros({static_cast<std::int64_t>(lengths.size()) + 1}, Dtype::i32);
  auto* end = offsets.data<std::int32_t>();
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > kMost - total) {
      refuse("sequences", "lengths must be 0 or more and add up to at most {}; one is {}", kMost, length);
    }
    total += length;
    *++end = static_cast<std::int32_t>(total);
  }
  return offsets;
}

}  // namespace qkv
