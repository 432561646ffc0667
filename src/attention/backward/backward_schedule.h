// How a backward pass and a double one are carried out and what they allocate, decided before anything runs: the passes
// follow it, plan() reports it.
#pragma once

#include <cstdint>

#include "attention/backward/backward_kernel.h"
#include "attention/backward/bias_gradients.h"
#include "attention/backward/parameter_sums.h"
#include "attention/call/attention_call.h"
#include "attention/call/memory_count.h"
#include "attention/tangent/jvp_schedule.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::inline attending {

struct BackwardInputs {
  TensorView q, k, v, out, log_sum_exp, grad_out;
  // Of the double backward, which differentiates grad_out times the tangent of out: the tangents of q, k and v, and
  // what move_outputs() makes of them. Given or not as a whole.
  AttentionTangents tangents{};
  MovedOutputs moved{};
};

struct BackwardSchedule {
  BackwardSchedule() = default;
  // std::invalid_argument if the memory limit cannot be kept beside what the arena has.
  BackwardSchedule(const AttentionCall& call, const BiasGradients& bias, const ParameterSums& parameters,
                   bool is_double, Arena& arena);

  bool empty = true;  // no pair of a query and a key
  BackwardPlan kernel;
  std::int64_t chunks = 0, blocks = 0;  // of keys and of queries, of the longest sequence
  std::int64_t sums_of_block() const { return empty ? 0 : kernel.block_queries / kernel.sum_queries; }
  std::int64_t tasks = 0;   // chunks of keys of each key/value head
  int threads = 1;          // that have something to do: as many as asked for, or as the limit allows
  int allowed_threads = 1;  // by the memory limit

  std::int64_t chunk_keys = 0;  // of a chunk at most, in whole tiles
  // A thread's sums over queries for the keys of a chunk, one part behind the other, and the chunk's converted rows.
  std::size_t key_bytes = 0, value_bytes = 0, score_bytes = 0, bias_bytes = 0, wide_bytes = 0;
  std::size_t sum_bytes() const { return key_bytes + value_bytes + score_bytes + bias_bytes; }
};

// One pass after the other.
struct DoubleBackwardSchedule {
  JvpSchedule tangents;
  BackwardSchedule gradients;
};

}  // namespace qkv::inline attending
