// Activation functions over elements in place.
#pragma once

#include <cstdint>

#include "qkv/feed_forward.h"

namespace qkv {

void activate(Activation activation, float* x, std::int64_t count);
void activate(Activation activation, double* x, std::int64_t count);

}  // namespace qkv
