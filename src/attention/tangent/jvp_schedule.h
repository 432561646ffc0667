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
  // `outer`: bytes that the caller holds meanwhile. std::invalid_argument if the memory limit cannot be kept.
  explicit JvpSchedule(const AttentionCall& call, std::size_t outer = 0);

  JvpPlan kernel;
  std::int64_t blocks = 0;    // of queries, of the longest sequence
  std::int64_t tasks = 0;     // these of all heads
  int threads = 1;            // that have something to do: as many as asked for, or as the limit allows
  int allowed_threads = 1;    // by the memory limit
  std::size_t workspace = 0;  // the most that is allocated at a time
};

// What attention_double_backward() allocates for the tangents of out, unless they have a view, and of log_sum_exp.
std::size_t moved_bytes(const AttentionCall& call, bool has_view);

}  // namespace qkv::inline attending
