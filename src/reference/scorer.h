// The score of a query and a key, and its derivatives: each kind a sentence of include/qkv/attention/score.h.
#pragma once

#include <span>
#include <vector>

#include "qkv/attention/score.h"
#include "reference/batch.h"

namespace qkv::reference {

// Gradients of a score's parameters, f64, in their shapes; of those that it does not have, nothing.
struct ScoreGradients {
  Tensor w_query, w_key, v;
};

class Scorer {
 public:
  explicit Scorer(const Score& score);

  double default_scale(std::int64_t head_dim) const;
  double score(Vector query, Vector key) const;

  ScoreGradients no_gradients() const;
  // gradient * (d score / d query, key, parameters), added to each.
  void add_gradients(double gradient, Vector query, Vector key, std::span<double> grad_query,
                     std::span<double> grad_key, ScoreGradients& grad_parameters) const;

 private:
  // What tanh is applied to: w_query query + w_key key, or w [query; key].
  std::vector<double> hidden(Vector query, Vector key) const;

  Score::Kind kind_;
  Tensor w_query_, w_key_, v_;
};

}  // namespace qkv::reference
