// What forward and backward of a recurrent layer share beside the passes: states as they start, and dropout.
#pragma once

#include <string_view>

#include "layers/recurrent/recurrent_batch.h"
#include "qkv/layers/recurrent.h"

namespace qkv::inline layers {

// States of all layers and directions, copied; zeros where they are not given. std::invalid_argument if their shape or
// type is wrong, or cells are given to what has none.
RecurrentStates<Tensor> copy_states(std::string_view layer, const RecurrentStates<TensorView>& states,
                                    const RecurrentConfig& config, std::int64_t batch, Dtype dtype);

// Dropout in place behind a layer. Every sequence has a seed of its own, so that its mask does not depend on the
// lengths of others.
void drop_steps(const Dropout& dropout, int layer, const RecurrentBatch& batch, const MutableTensorView& rows,
                int threads);

}  // namespace qkv::inline layers
