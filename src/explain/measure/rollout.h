// Attention rollout of one token: its row of the product over the layers of (A + I) / 2, A the mean of a layer's heads.
// A vector goes through the layers, the last one first, and never two matrices meet; A is computed again from queries
// and keys, some rows at a time, so that no matrix of all pairs is in memory.
// Source: Abnar, Zuidema, "Quantifying attention flow in Transformers" (2020).
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

// Sees a run of an input with one attention, of a sequence to itself.
class Rollout : public Observer {
 public:
  explicit Rollout(const Explainable& input);

  bool wants(std::string_view name) const override;
  void receive(std::string_view name, const TensorView& value) override;

  // After the run: how much of each input token reached the last vector of this one; the sum is 1. Memory: 64 rows of
  // weights of all heads.
  std::vector<double> of(std::int64_t token) const;

 private:
  const Explainable& input_;
  std::vector<Tensor> queries_{}, keys_{};  // of each layer, [tokens, heads, size]
};

}  // namespace qkv::inline explaining
