// How a backward pass is carried out and what it allocates, decided before anything runs: the pass follows it, plan()
// reports it.
#pragma once

#include <cstdint>

#include "attention/backward/backward_kernel.h"
#include "attention/backward/bias_gradients.h"
#include "attention/backward/parameter_sums.h"
#include "attention/call/attention_problem.h"
#include "attention/call/memory_count.h"

namespace qkv::inline attending {

// What the caller of a pass allocates around it: bytes that are there meanwhile, and the most before or after it.
struct OuterMemory {
  std::size_t meanwhile = 0, otherwise = 0;
};

struct BackwardSchedule {
  BackwardSchedule() = default;
  // `wide_query`: bytes of the queries' gradient where it is summed in another type than it is written in.
  // std::invalid_argument if the memory limit cannot be kept.
  BackwardSchedule(const AttentionProblem& problem, const AttentionOptions& options, const BiasGradients& bias,
                   const ParameterSums& parameters, bool is_double, std::size_t wide_query, const OuterMemory& outer);

  bool empty = true;  // no pair of a query and a key
  BackwardPlan kernel;
  std::int64_t chunks = 0, blocks = 0;  // of keys and of queries, of the longest sequence
  std::int64_t tasks = 0;               // chunks of keys of each key/value head
  int threads = 1;                      // that have something to do: as many as asked for, or as the limit allows
  int asked_threads = 1, allowed_threads = 1;  // allowed: by the memory limit

  std::int64_t chunk_keys = 0;  // of a chunk at most, in whole tiles
  // A thread's sums over queries for the keys of a chunk, one part behind the other, and the chunk's converted rows.
  std::size_t key_bytes = 0, value_bytes = 0, score_bytes = 0, bias_bytes = 0, wide_bytes = 0;
  std::size_t sum_bytes() const { return key_bytes + value_bytes + score_bytes + bias_bytes; }

  std::size_t workspace = 0;  // the most that is allocated at a time
};

}  // namespace qkv::inline attending
