// attention_jvp() of a checked call, for it and for attention_double_backward(); and checks of what both are given.
#pragma once

#include <cstdint>
#include <string_view>

#include "attention/call/attention_call.h"
#include "attention/tangent/jvp_kernel.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv::inline attending {

// What is known of the outputs' tangents, or views for it: of out and log_sum_exp, and the sums of jvp_kernel.h.
struct MovedOutputs {
  MutableTensorView out{}, log_sum_exp{}, weight_sum{};
};

// How tangents are computed and what that allocates, decided before anything runs: the pass follows it, plan() reports
// it.
struct JvpSchedule {
  // std::invalid_argument if the memory limit cannot be kept beside what the arena has.
  JvpSchedule(const AttentionCall& call, Arena& arena);

  JvpPlan kernel;
  std::int64_t blocks = 0;  // of queries, of the longest sequence
  std::int64_t tasks = 0;   // these of all heads
  int threads = 1;          // that have something to do: as many as asked for, or as the limit allows
  int allowed_threads = 1;  // by the memory limit
};

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
