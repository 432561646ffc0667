// Activation functions over elements in place, and their derivatives.
#pragma once

#include <cstdint>

#include "qkv/activation.h"

namespace qkv::inline ops {

void activate(Activation activation, float* x, std::int64_t count);
void activate(Activation activation, double* x, std::int64_t count);

// gradient *= the derivative at x. relu has derivative 0 at 0, as in torch.
void activate_backward(Activation activation, const float* x, float* gradient, std::int64_t count);
void activate_backward(Activation activation, const double* x, double* gradient, std::int64_t count);

}  // namespace qkv::inline ops
