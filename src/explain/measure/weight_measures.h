// Measures of weights: how much a token depends on each, how much of a value leaves a head by each, and whether
// two measures rank alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "qkv/explain/explainable.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Gradient times weight: w(i, j) dL/dw(i, j), where L is the log-probability of a token that a model wrote and every
// other weight stays as it is: dL/dw(i, j) = g_i . v_j, g_i = dL/d(output of the head for query i).
// Sources: Barkan et al., "Grad-SAM: explaining Transformers via gradient self-attention maps" (2021); Chefer, Gur,
// Wolf, "Transformer interpretability beyond attention visualization" (2021). Both keep what is positive; here the sign
// stays.
struct HeadGradient {
  HeadIndex index{};
  Tensor values{};  // [queries, keys], f64
};

// Gradients of every head, for the token generated at this place: one run forward, one back. Memory: the weights of all
// heads.
std::vector<HeadGradient> gradient_weights(const Explainable& input, std::int64_t written);

// How much each key adds to what leaves a head: attention weight times the length of the value as it leaves W_O,
//   norm(i, j) = w(i, j) ||v_j W_O^h||,   v_j [size], W_O^h [size, out]: the head's rows of the output projection.
// Source: Kobayashi et al., "Attention is not only a weight: analyzing Transformers with vector norms" (2020).

// ||v_j W_O^h|| of one head: [keys], f64. `value` [keys, kv_heads, size] and `out_weight` [out, heads * size] as the
// layer's observer sees them; a layer without an output projection has no `out_weight`, and the value its own length.
Tensor value_lengths(const TensorView& value, const TensorView& out_weight, std::int64_t heads, std::int64_t head);

// norm(i, j): [queries, keys], f64, of weights of that shape.
Tensor value_norms(const Tensor& weights, const Tensor& lengths);

// Spearman's rank correlation: Pearson's of the ranks, where equal numbers share the mean of their ranks. From -1 to 1;
// none for fewer than two entries, for a list of equal numbers, and where a number is not finite.
// Source: Spearman, "The proof and measurement of association between two things" (1904).
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace qkv::inline explaining
