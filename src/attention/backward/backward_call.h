// The gradients of attention with respect to what its scores are made of: queries and keys of dot products, and the
// hidden layers w_query q and w_key k of additive scores (concat: w's two halves). The other gradients of a score
// follow by matrix products: score_parameters.h.
#pragma once

#include <string_view>

#include "attention/backward/backward_schedule.h"
#include "attention/call/attention_call.h"
#include "attention/tangent/jvp_call.h"
#include "qkv/attention/attention_backward.h"

namespace qkv::inline attending {

// As attention_backward() for the call of these inputs and options, but for additive scores `gradients.query` and
// `gradients.key` have the hidden size, and of the score's parameters there is only v. Not for bilinear scores. How
// that is carried out; a dry run of the arena does no more than that, and no view needs elements.
BackwardSchedule differentiate_scores(const AttentionCall& call, const BackwardInputs& inputs,
                                      const AttentionOptions& options, const AttentionGradients& gradients,
                                      Arena& arena);

// The same of attention_double_backward(), without `inputs.moved`.
DoubleBackwardSchedule differentiate_twice(const AttentionCall& call, BackwardInputs inputs,
                                           const AttentionOptions& options, const AttentionSecondGradients& gradients,
                                           Arena& arena);

// std::invalid_argument for options that have no gradients, and for gradients that do not fit the score.
void check_backward(const AttentionOptions& options, const AttentionGradients& gradients);
// std::invalid_argument unless the view has the type of q or of the accumulation.
void check_type(const AttentionCall& call, std::string_view name, const TensorView& view);
// std::invalid_argument unless a gradient that was brought to the call's form has the type of q or of the
// accumulation, and no two elements share an address.
void check_gradient(const AttentionCall& call, std::string_view name, const TensorView& view);

}  // namespace qkv::inline attending
