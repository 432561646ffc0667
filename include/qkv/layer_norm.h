// y = (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension, as torch.nn.LayerNorm (biased
// variance). Source: Ba, Kiros, Hinton, "Layer normalization" (2016).
#pragma once

#include <cstdint>
#include <string>

#include "qkv/weights.h"

namespace qkv {

struct LayerNormConfig {
  std::int64_t dim = 0;
  double epsilon = 1e-5;
  bool bias = true;
};

// Immutable after construction: any number of threads may call forward.
class LayerNorm {
 public:
  // Takes weight [dim] and bias [dim].
  LayerNorm(const LayerNormConfig& config, Weights& weights, const std::string& scope = "");

  // x [..., dim], and what is added to it before, of the same shape (a residual connection); not given: nothing.
  Tensor forward(const TensorView& x, const TensorView& added = {}, int threads = 0) const;

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;

 private:
  LayerNormConfig config_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace qkv
