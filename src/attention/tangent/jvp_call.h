// attention_jvp() of a checked problem, for it and for attention_double_backward(); and checks of what both are given.
#pragma once

#include <string_view>

#include "attention/call/attention_problem.h"
#include "attention/tangent/jvp_kernel.h"
#include "attention/tangent/jvp_schedule.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv::inline attending {

// std::invalid_argument, beginning with the function's name, for options without tangents (see attention_jvp.h).
void require_tangents(std::string_view function, const AttentionProblem& problem, const AttentionOptions& options);

// std::invalid_argument unless the view has the type of q.
void require_type_of_q(const AttentionProblem& problem, std::string_view name, const TensorView& view);
// The same of an output, of which no two elements share an address either.
void require_output(const AttentionProblem& problem, std::string_view name, const TensorView& view);

// attention_jvp() of a checked problem.
void move_outputs(AttentionProblem& problem, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents, const JvpSchedule& schedule, const MovedOutputs& outputs);

// Each in the form and the type of what it is a tangent of; std::invalid_argument for one that does not fit.
class Tangents {
 public:
  Tangents() = default;
  Tangents(const AttentionProblem& problem, const AttentionTangents& tangents);

  // Of head h of sequence b.
  TaskTangents task(const AttentionProblem& problem, std::int64_t b, std::int64_t h) const;

 private:
  TensorView query_, key_, value_;
};

}  // namespace qkv::inline attending
