// How forward attention multiplies: an opt-in that trades bits for speed.
//
//   exact    products in f32 (f64 for f64). On the target "avx512-bf16" the elements of bf16 queries and keys are
//            multiplied in pairs, with a dot or scaled score: exact products, each added with one rounding to f32, of
//            neighbours 2i and 2i + 1 the latter first.
//   reduced  queries (projected ones, for a bilinear score), keys, values and weights are rounded to bf16, to nearest,
//            ties to even; their products are added up in f32. Everything between the two products stays in f32.
//
// With u = 2^-8, the rounding to bf16, and e = |scale| (2u + u^2) max over visible j of sum_i |q_i k_ji|, reduced gives
//   |log-sum-exp - exact| <= e + 2^-12
//   |out - exact|         <= (e^(2e + 2^-12) (1 + u)^2 - 1) sum_j w_j |v_j|     (w: the exact weights)
// plus what exact itself may be off and, of a 16-bit output, its own rounding. With bf16 inputs q, k and v are not
// rounded: e = 0, and (1 + u) stands for (1 + u)^2. Numbers from 255.5 * 2^120 on round to infinity; numbers below
// 2^-126 count as 0.
//
// Reduced needs one of the targets "avx512-bf16" (Intel 64 and IA-32 Software Developer's Manual, VDPBF16PS and
// VCVTNE2PS2BF16) and "amx", several queries of a sequence, a dot, scaled or bilinear score, head and value sizes of at
// most 512, and f32, bf16 or f16. All else is computed exactly; plan() says so. On "amx" both products are those of its
// tiles (TDPBF16PS), which are faster and give other bits.
#pragma once

#include "qkv/api.h"

namespace qkv {

enum class Precision { exact, reduced };

// Whether the selected target of this CPU can compute `reduced`.
QKV_API bool has_reduced_precision();

}  // namespace qkv
