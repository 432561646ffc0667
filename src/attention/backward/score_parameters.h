// The gradients of attention whatever its score: those of scores with parameters (additive, concat, bilinear) follow
// from the ones of backward_call.h by the chain rule.
#pragma once

#include "attention/backward/backward_call.h"

namespace qkv::inline attending {

// attention_backward() of a checked call, and how it is carried out; a dry run of the arena does no more than that, and
// no view needs elements.
BackwardSchedule differentiate(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                               const AttentionGradients& gradients, Arena& arena);

}  // namespace qkv::inline attending
