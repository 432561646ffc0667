/// \file
/// How products are multiplied: an opt-in that trades bits for speed, of forward attention and of layers (matmul.h:
/// WeightStorage::reduced).
///
///     exact          products in f32 (f64 for f64). On the target "avx512-bf16" the elements of bf16 queries and keys
///     are
///                    multiplied in pairs, with a dot or scaled score: exact products, each added with one rounding to
///                    f32, of neighbours 2i and 2i + 1 the latter first.
///     reduced        both factors of a product are rounded to bf16, to nearest, ties to even: of attention queries
///                    (projected ones, for a bilinear score), keys, values and weights; of layers rows and weights. The
///                    products are exact; their sums in f32 follow TDPBF16PS (Intel 64 and IA-32 Software
///                    Developer's Manual): 32 along the depth at a time, the even ones in a chain from 0, the odd ones
///                    in another, then both together are added to the sum; subnormal factors and sums are 0. The same
///                    bits on every target with fused multiply-add (Target::fused): "amx" has the instruction.
///     reduced_pairs  the same factors in the sums of VDPBF16PS (of layers as matmul.h says): twice as fast on the
///                    target "avx512-bf16", which alone has it, and other bits.
///
/// Everything else stays in f32: softmax, norms, activations, residual connections, logits of a vocabulary. Of
/// attention, with u = 2^-8, the rounding to bf16, and e = |scale| (2u + u^2) max over visible j of sum_i |q_i k_ji|,
/// both reduced give
///   |log-sum-exp - exact| <= e + 2^-12
///   |out - exact|         <= (e^(2e + 2^-12) (1 + u)^2 - 1) sum_j w_j |v_j|     (w: the exact weights)
/// plus the error of exact itself and, for a 16-bit output, its rounding. With bf16 inputs q, k and v are not rounded:
/// e = 0, and (1 + u) stands for (1 + u)^2. Numbers from 255.5 * 2^120 on round to infinity; numbers below 2^-126 count
/// as 0.
///
/// Attention is reduced with several queries of a sequence, a dot, scaled or bilinear score, head and value sizes of at
/// most 512, and f32, bf16 or f16. Everything else is computed exactly; plan() says so.
#pragma once

#include <string_view>
#include <utility>

#include "qkv/api.h"

namespace qkv {

enum class Precision { exact, reduced, reduced_pairs };

/// As options name them.
inline constexpr std::pair<std::string_view, Precision> kPrecisions[] = {
    {"exact", Precision::exact}, {"reduced", Precision::reduced}, {"reduced_pairs", Precision::reduced_pairs}};

QKV_API std::string_view name_of(Precision precision);

/// Whether the selected target of this CPU can compute `reduced` attention: those with fused multiply-add.
QKV_API bool has_reduced_precision();

}  // namespace qkv
