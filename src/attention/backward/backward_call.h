// The gradients of attention with respect to what its scores are made of: queries and keys of dot products, and the
// hidden layers w_query q and w_key k of additive scores (concat: w's two halves). The other gradients of a score
// follow by matrix products: score_parameters.cc.
#pragma once

#include <cstdint>
#include <string_view>

#include "attention/backward/backward_kernel.h"
#include "attention/backward/bias_gradients.h"
#include "attention/backward/parameter_sums.h"
#include "attention/call/attention_call.h"
#include "attention/call/memory_count.h"
#include "attention/tangent/jvp_call.h"
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

// How a backward pass is carried out and what it allocates, decided before anything runs: the pass follows it, plan()
// reports it.
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

// As attention_backward() for the call of these inputs and options, but for additive scores `gradients.query` and
// `gradients.key` have the hidden size, and of the score's parameters there is only v. Not for bilinear scores. How
// that is carried out; a dry run of the arena does no more than that, and no view needs elements.
BackwardSchedule differentiate_scores(const AttentionCall& call, const BackwardInputs& inputs,
                                      const AttentionOptions& options, const AttentionGradients& gradients,
                                      Arena& arena);

// attention_backward() of a checked call, whatever its score: what differentiate_scores() gives, and by the chain rule
// the gradients of a score's parameters. The same of a dry run.
BackwardSchedule differentiate(const AttentionCall& call, const BackwardInputs& inputs, const AttentionOptions& options,
                               const AttentionGradients& gradients, Arena& arena);

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
