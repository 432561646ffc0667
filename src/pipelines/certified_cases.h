// The computations of certify(): names and digests of results, on numbers from the library's own generator.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "qkv/random.h"
#include "qkv/tensor.h"

namespace qkv::inline pipelines {

using Digests = std::map<std::string, std::uint64_t>;

// Normal numbers, drawn in f64.
Tensor normal_numbers(Random& random, const Dims& shape, Dtype dtype = Dtype::f32, double spread = 1);

// Attention with what may be asked for, its gradients and tangents, in f32 and f64.
void add_attention_cases(Digests& all);
// Activations and the cross-entropy.
void add_row_cases(Digests& all);
// Small models with drawn weights: an encoder of texts, 20 updates of an encoder-decoder and what it then translates,
// and what a language model writes.
void add_model_cases(Digests& all);

}  // namespace qkv::inline pipelines
