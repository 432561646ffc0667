// Work on all elements of tensors, in blocks of a fixed size: the same blocks for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/mathematics.h"
#include "qkv/models/trainable.h"
#include "qkv/threads.h"

namespace qkv::training {

// Some ten microseconds of an update.
inline constexpr std::int64_t kBlockElements = 1 << 14;

inline std::int64_t block_count(std::int64_t elements) { return divide_up(elements, kBlockElements); }

// Calls body(begin, end, block) for the blocks of [0, elements), on all threads.
template <class Body>
void for_each_block(std::int64_t elements, const Body& body) {
  parallel_for(block_count(elements), 0, [&](std::int64_t block, int) {
    const std::int64_t begin = block * kBlockElements;
    body(begin, std::min(begin + kBlockElements, elements), block);
  });
}

// The norm of all gradients of a model together: the square root of the sum of all squares, summed in double in one
// fixed order.
double gradient_norm(const Trainable& model);

}  // namespace qkv::training
