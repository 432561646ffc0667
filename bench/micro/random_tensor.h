// Numbers from -1 to 1 to compute with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/random.h"
#include "qkv/tensor.h"

namespace qkv::bench {

inline Tensor random_tensor(const Dims& shape, Dtype dtype, std::uint64_t seed) {
  Random random(seed);
  Tensor values = Tensor::uninitialized(shape);
  std::generate_n(values.data<float>(), values.element_count(),
                  [&] { return static_cast<float>(2 * random.uniform() - 1); });
  return convert(values, dtype);
}

}  // namespace qkv::bench
