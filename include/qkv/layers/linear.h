/// \file
/// y = x W^T + b on the rows of x, as torch.nn.Linear.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/packed_parameter.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"

namespace qkv {

struct LinearConfig {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
};

/// Safe for concurrent forward(); only update() modifies it.
class QKV_API Linear : public Parameterized {
 public:
  /// Takes weight [out, in] and bias [out].
  Linear(const LinearConfig& config, Weights& weights, const std::string& scope = "");

  /// x [..., in] -> [..., out]. threads as in MatmulOptions.
  Tensor forward(const TensorView& x, int threads = 0) const;
  /// The same for rows x [n, in] into out [n, out].
  void forward(const TensorView& x, const MutableTensorView& out, int threads = 0) const;

  /// The same of outputs first <= c < first + out.size(1) alone. `first`: a multiple of columns_at_once().
  void forward_columns(const TensorView& x, std::int64_t first, const MutableTensorView& out, int threads = 0) const;
  /// At most so many outputs, but a panel of them, where forward_columns() can; else all of them.
  std::int64_t columns_at_once(std::int64_t wanted) const;

  /// With the input of forward and the gradient of its output: adds to the gradients of the parameters that require
  /// them, and to grad_x, of x's shape, if it is given.
  void backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);

  /// What cross_entropy() takes of it where its outputs are classes, whose `storage` holds the weight if need be; and
  /// where the gradients go that are wanted.
  ClassWeights classes(Tensor& storage) const;
  CrossEntropyGradients class_gradients();

  /// The right operand of x W^T, and b, if there is one, for callers that compute the product themselves.
  const PackedMatrix& packed() const { return weight_.part(); }
  TensorView bias() const { return config_.bias ? bias_.value.view() : TensorView(); }
  /// The right operand of grad_x += grad_out W, for callers that compute that product themselves, in parts.
  PackedMatrix pack_for_backward(int threads = 0) const;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  LinearConfig config_;
  PackedParameter weight_;
  Parameter bias_;
};

}  // namespace qkv
