// One head of attention with any score (qkv/attention/score.h) over a memory that serves as keys and values as it is,
// as in recurrent encoder-decoders: out_i = sum over j of softmax_j(score(q_i, m_j)) m_j.
//
//     ScoredAttention attention({.score = Score::Kind::additive, .dim = 64}, weights, "attention.");
//     Tensor context = attention.forward({states, offsets}, {memory, memory_offsets});
#pragma once

#include <cstdint>
#include <string>

#include "qkv/attention/mask.h"
#include "qkv/attention/score.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"
#include "qkv/observer.h"

namespace qkv {

struct ScoredAttentionConfig {
  Score::Kind score = Score::Kind::dot;  // dot, additive or bilinear; the scale is 1
  std::int64_t dim = 0;                  // of queries and memory, and of what additive compares; at most 1024
};

// What backward needs of a forward pass.
struct ScoredAttentionSaved {
  Tensor out{}, log_sum_exp{};
  Mask mask{};
};

// Safe for concurrent forward(); only update() and backward() modify it.
class ScoredAttention : public Parameterized {
 public:
  // Takes, additive: w_query and w_key [dim, dim] and v [dim]; bilinear: w [dim, dim]; dot: nothing.
  ScoredAttention(const ScoredAttentionConfig& config, Weights& weights, const std::string& scope = "");

  // Ragged rows [n, dim] (sequences.h) -> [n, dim]. The observer receives query, key and value [n, 1, dim], of which
  // additive: query = W_query q and key = W_key m, with v [dim], bilinear: query = W^T q; then logits and weights
  // [n, 1, longest memory] and heads [n, 1, dim].
  Tensor forward(const Sequences& query, const Sequences& memory, int threads = 0, Observer* observer = nullptr,
                 const Mask& mask = {}) const;
  Tensor forward(const Sequences& query, const Sequences& memory, ScoredAttentionSaved& saved, int threads = 0,
                 const Mask& mask = {}) const;
  // With the same inputs: adds to the gradients of the parameters that want them, and to those of queries and memory.
  void backward(const Sequences& query, const Sequences& memory, const ScoredAttentionSaved& saved,
                const TensorView& grad_out, Tensor& grad_query, Tensor& grad_memory, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  Score score() const;

  ScoredAttentionConfig config_;
  Parameter w_query_, w_key_, v_;  // bilinear: w_query_ alone
};

}  // namespace qkv
