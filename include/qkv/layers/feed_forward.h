/// \file
/// y = W2 activation(W1 x + b1) + b2 on the rows of x: the sublayer between attentions. Gated (GLU; SwiGLU with silu,
/// GEGLU with gelu): y = W2 (activation(W1 x + b1) * (W3 x + b3)) + b2. Source: Shazeer, "GLU variants improve
/// Transformer" (2020).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "qkv/activation.h"
#include "qkv/api.h"
#include "qkv/attention/dropout.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/row_blocks.h"
#include "qkv/layers/weights.h"

namespace qkv {

struct FeedForwardConfig {
  std::int64_t model_dim = 0;
  std::int64_t ff_dim = 0;
  Activation activation = Activation::relu;
  bool bias = true;
  bool gated = false;
  bool activation_dropout = true;  ///< false: training drops nothing of what W2 takes
};

/// What backward needs of a forward pass.
struct FeedForwardSaved {
  Tensor wide{};  ///< [n, ff_dim]: what the activation takes
  Tensor gate{};  ///< [n, ff_dim], if gated: what its result is multiplied by
};

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API FeedForward : public Parameterized {
 public:
  /// Takes linear1.weight [ff_dim, model_dim], linear2.weight [model_dim, ff_dim], if gated linear3.weight [ff_dim,
  /// model_dim], and their biases.
  FeedForward(const FeedForwardConfig& config, Weights& weights, const std::string& scope = "");

  /// x [..., model_dim] -> [..., model_dim].
  Tensor forward(const TensorView& x, int threads = 0) const;
  void forward(const NormedRows& x, const RowSink& put, int threads = 0) const;  ///< in blocks (row_blocks.h)

  /// The same for training: dropout applies to what W2 takes (activation_dropout).
  Tensor forward(const TensorView& x, const Dropout& dropout, FeedForwardSaved& saved, int threads = 0) const;
  /// With the same input and dropout, and the gradient of the output: adds to the gradients of the parameters that want
  /// them, and to grad_x, of x's shape, if it is given.
  void backward(const TensorView& x, const Dropout& dropout, const FeedForwardSaved& saved, const TensorView& grad_out,
                const MutableTensorView& grad_x = {}, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  std::int64_t block_rows() const;
  /// Of rows that are a block.
  void feed(const TensorView& rows, const MutableTensorView& out, int threads) const;
  /// What W2 takes.
  Tensor activated(const TensorView& rows, int threads) const;

  FeedForwardConfig config_;
  Linear first_, second_;
  std::optional<Linear> third_;
};

}  // namespace qkv
