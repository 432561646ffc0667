// How tangents are computed and what that allocates, decided before anything runs: the pass follows it, plan() reports
// it.
#pragma once

#include <cstdint>

#include "attention/call/attention_call.h"
#include "attention/tangent/jvp_kernel.h"
#include "qkv/tensor.h"

namespace qkv::inline attending {

// What is known of the outputs' tangents, or views for it: of out and log_sum_exp, and the sums of jvp_kernel.h.
struct MovedOutputs {
  MutableTensorView out{}, log_sum_exp{}, weight_sum{};
};

struct JvpSchedule {
  // std::invalid_argument if the memory limit cannot be kept beside what the arena has.
  JvpSchedule(const AttentionCall& call, Arena& arena);

  JvpPlan kernel;
  std::int64_t blocks = 0;  // of queries, of the longest sequence
  std::int64_t tasks = 0;   // these of all heads
  int threads = 1;          // that have something to do: as many as asked for, or as the limit allows
  int allowed_threads = 1;  // by the memory limit
};

}  // namespace qkv::inline attending
