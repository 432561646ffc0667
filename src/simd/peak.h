// The yardstick of the kernels: how fast one thread can multiply and add when nothing but the arithmetic units limits
// it.
#pragma once

#include "qkv/dtype.h"

namespace qkv::inline simd {

// Billions of operations per second (a fused multiply-add counts two) of one thread on the selected target, f32 or f64.
// Takes about 50 ms. std::invalid_argument for other types.
double peak_gflops(Dtype dtype);

}  // namespace qkv::inline simd
