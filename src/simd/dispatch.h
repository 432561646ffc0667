// What every dispatched kernel calls first, and how fast kernels can be on the selected target.
#pragma once

#include "qkv/dtype.h"

namespace qkv::inline simd {

// Makes the choice of QKV_TARGET or of the best target once, before HWY_DYNAMIC_DISPATCH reads it.
// std::invalid_argument as in selected_target().
void ensure_target();

// Whether the selected target has fused multiply-add (Target::fused). After ensure_target().
bool uses_fused();

// Whether the selected target is "avx512-bf16", kernels of AVX-512 that may multiply pairs of bf16, too. After
// ensure_target().
bool uses_bf16_pairs();

// Whether the selected target is "amx", kernels of AVX-512 that may use tiles, too, and tiles are to be had. After
// ensure_target().
bool uses_amx();

// The same of tiles that multiply bytes.
bool uses_byte_tiles();

// The yardstick of the kernels: how fast one thread can multiply and add when nothing but the arithmetic units limits
// it. Billions of operations per second (a fused multiply-add counts two) of one thread on the selected target: f32,
// f64, or bf16 if there are instructions for it, else f32. Takes about 50 ms. std::invalid_argument for other types.
double peak_gflops(Dtype dtype);

}  // namespace qkv::inline simd
