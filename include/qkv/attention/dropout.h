/// \file
/// Dropout of the weights between softmax and values: a weight is kept, and divided by the rate at which weights are
/// kept, or it becomes 0. The choice depends only on the seed and on four indices, so that forward and backward, every
/// CPU target, any number of threads, and padded and packed batches agree on it.
///
/// Random bits: the block philox(counter = (key / 8, query, head, sequence), key = seed, 7 rounds) belongs to eight
/// keys, 16 bits to each, the low half of its first number to the first one. The weight is kept if they are below
/// round((1 - p) * 65536); that number / 65536 is the rate. Indices count within the sequence.
#pragma once

#include <cstdint>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

struct Dropout {
  double p = 0;  ///< the probability of becoming 0, from 0 (off) to 1
  std::uint64_t seed = 0;
};

struct DropoutIndex {
  std::int64_t sequence = 0, head = 0, query = 0, key = 0;
};

/// Which weights are kept: true or 1, in bool or u8, [..., heads, q_len, k_len]; all dimensions before the heads count
/// sequences; [q_len, k_len] is fine. `first`: the indices of its first element, for a part of a mask.
QKV_API void dropout_mask(const Dropout& dropout, const MutableTensorView& kept, const DropoutIndex& first = {});

}  // namespace qkv
