// What every dispatched kernel calls first.
#pragma once

namespace qkv::inline simd {

// Makes the choice of QKV_TARGET or of the best target once, before HWY_DYNAMIC_DISPATCH reads it.
// std::invalid_argument as in selected_target().
void ensure_target();

// Whether the selected target is "avx512-bf16", kernels of AVX-512 that may multiply pairs of bf16, too. After
// ensure_target().
bool uses_bf16_pairs();

// Whether the selected target is "amx", kernels of AVX-512 that may use tiles, too, and tiles are to be had. After
// ensure_target().
bool uses_amx();

// The same of tiles that multiply bytes.
bool uses_byte_tiles();

}  // namespace qkv::inline simd
