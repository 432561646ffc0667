/// \file
/// Pairs of token sequences: what an encoder-decoder reads, and what it is trained on.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/tensor.h"

namespace qkv {

struct TokenPair {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
};

/// Pairs side by side: tokens one after the other, offsets as in sequences.h.
struct PairBatch {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
  Tensor source_offsets;
  Tensor target_offsets;
};

}  // namespace qkv
