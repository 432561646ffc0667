// Dropout between layers: which elements are kept follows from the seed and the index of the element, so that backward
// finds the same mask and nothing is stored.
#pragma once

#include "qkv/attention/dropout.h"
#include "qkv/tensor.h"

namespace qkv::inline layers {

// Of the sites of dropout in one layer or model, number `site`: a seed of its own.
Dropout dropout_at(const Dropout& dropout, std::uint32_t site);

// out = x / rate where the element is kept, else 0; x and out [n, size] may be the same. The first row of x has the
// number `first_row`. Copies if dropout is off and they are not the same.
void drop(const Dropout& dropout, const TensorView& x, const MutableTensorView& out, int threads,
          std::int64_t first_row = 0);

}  // namespace qkv::inline layers
