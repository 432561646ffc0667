/// \file
/// Over the last dimension, as torch.nn.LayerNorm (biased variance) and torch.nn.RMSNorm:
///   layer  y = (x - mean) / sqrt(variance + epsilon) * weight + bias
///   rms    y = x / sqrt(mean of squares + epsilon) * weight + bias
/// Sources: Ba, Kiros, Hinton, "Layer normalization" (2016); Zhang, Sennrich, "Root mean square layer normalization"
/// (2019).
#pragma once

#include <cstdint>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"

namespace qkv {

enum class Normalization { layer, rms };

struct LayerNormConfig {
  std::int64_t dim = 0;
  double epsilon = 1e-5;
  bool bias = true;
  Normalization normalization = Normalization::layer;
};

/// Safe for concurrent forward(); only update() modifies it.
class QKV_API LayerNorm : public Parameterized {
 public:
  /// Takes weight [dim] and bias [dim].
  LayerNorm(const LayerNormConfig& config, Weights& weights, const std::string& scope = "");

  /// x [..., dim] plus `added`, in the same shape (a residual connection), if given.
  Tensor forward(const TensorView& x, const TensorView& added = {}, int threads = 0) const;
  /// The same into `out`, row-major, which may be x or `added`.
  void forward(const TensorView& x, const TensorView& added, const MutableTensorView& out, int threads = 0) const;
  /// sum += x, then forward(sum), in one pass: keeps the input of backward.
  Tensor add_forward(const TensorView& x, Tensor& sum, int threads = 0) const;

  /// With the input of the norm and the gradient of the output: adds to the gradients of the parameters that require
  /// them, and to grad_x, of x's shape, if it is given.
  void backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  void check(const char* name, const TensorView& view, const Dims& shape) const;
  void run(const TensorView& x, const TensorView& added, const MutableTensorView& sum, const MutableTensorView& out,
           int threads) const;

  LayerNormConfig config_;
  Parameter weight_, bias_;
};

}  // namespace qkv
