/// \file
/// Weights to train from, drawn as torch.nn.Transformer draws its own: matrices as Glorot and Bengio have it (2010,
/// uniform), the biases of linear1 and linear2 uniform within 1/sqrt(inputs), norms 1, other biases 0. An embedding
/// table (a matrix whose name has "embed" or "shared" in it) is normal with deviation 1/sqrt(dim), as for tied output
/// weights. Filters of convolutions and their biases as torch.nn.Conv1d and Conv2d: uniform within 1/sqrt(inputs *
/// taps). Running variances are 1.
///
///     Weights weights = initial_weights(1);
///     Transformer model(config, weights);
#pragma once

#include <cstdint>

#include "qkv/api.h"
#include "qkv/layers/weights.h"

namespace qkv {

/// A tensor depends on the seed and its name and shape alone.
QKV_API Weights initial_weights(std::uint64_t seed, Dtype dtype = Dtype::f32,
                                WeightStorage storage = WeightStorage::full);

}  // namespace qkv
