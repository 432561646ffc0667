// The gradients of attention whatever its score: those of scores with parameters (additive, concat, bilinear) follow
// from the ones of backward_call.h by the chain rule.
#pragma once

#include "attention/backward/backward_call.h"

namespace qkv::inline attending {

// attention_backward() of a checked call.
void differentiate(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                   const AttentionGradients& gradients);
// How that is carried out; no view needs elements.
BackwardSchedule schedule_backward(const AttentionCall& call, const BackwardInputs& inputs,
                                   const AttentionOptions& options, const AttentionGradients& gradients);

}  // namespace qkv::inline attending
