// Gradient times weight: w(i, j) dL/dw(i, j), where L is the log-probability of a token that a model wrote and every
// other weight stays as it is: dL/dw(i, j) = g_i . v_j, g_i = dL/d(output of the head for query i).
// Sources: Barkan et al., "Grad-SAM: explaining Transformers via gradient self-attention maps" (2021); Chefer, Gur,
// Wolf, "Transformer interpretability beyond attention visualization" (2021). Both keep what is positive; here the sign
// stays.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

struct HeadGradient {
  HeadIndex index{};
  Tensor values{};  // [queries, keys], f64
};

// Of every head, for the token written at this place: one run forward, one back. Memory: the weights of all heads.
std::vector<HeadGradient> gradient_weights(const Explainable& input, std::int64_t written);

}  // namespace qkv::inline explaining
