// How a double backward is carried out, one pass after the other, and what that allocates: decided before anything
// runs.
#pragma once

#include "attention/backward/backward_call.h"
#include "attention/backward/score_gradients.h"
#include "attention/tangent/jvp_call.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::inline attending {

struct DoubleBackwardSchedule {
  // No view needs elements. std::invalid_argument if the memory limit cannot be kept.
  DoubleBackwardSchedule(const AttentionProblem& problem, const BackwardInputs& inputs, const AttentionOptions& options,
                         const AttentionSecondGradients& second);

  std::size_t outer;  // bytes of what the first pass gives to the second
  JvpSchedule tangents;
  BackwardSchedule gradients;
};

}  // namespace qkv::inline attending
