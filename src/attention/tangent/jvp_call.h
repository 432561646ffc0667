// attention_jvp() of a checked call, for it and for attention_double_backward(); and checks of what both are given.
#pragma once

#include <string_view>

#include "attention/call/attention_call.h"
#include "attention/tangent/jvp_kernel.h"
#include "attention/tangent/jvp_schedule.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv::inline attending {

// std::invalid_argument, beginning with the function's name, for options without tangents (see attention_jvp.h).
void require_tangents(std::string_view function, const AttentionCall& call, const AttentionOptions& options);

// std::invalid_argument unless the view has the type of q.
void require_type_of_q(const AttentionCall& call, std::string_view name, const TensorView& view);
// The same of an output, of which no two elements share an address either.
void require_output(const AttentionCall& call, std::string_view name, const TensorView& view);

// attention_jvp() of a checked call.
void move_outputs(const AttentionCall& call, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents, const JvpSchedule& schedule, const MovedOutputs& outputs);

// Each in the form and the type of what it is a tangent of; std::invalid_argument for one that does not fit.
class Tangents {
 public:
  Tangents() = default;
  Tangents(const AttentionCall& call, const AttentionTangents& tangents);

  // Of head h of sequence b.
  TaskTangents task(const AttentionCall& call, std::int64_t b, std::int64_t h) const;

 private:
  TensorView query_, key_, value_;
};

}  // namespace qkv::inline attending
