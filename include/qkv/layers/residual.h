/// \file
/// A residual connection around a sublayer f, with its norm and dropout:
///   post  y = norm(x + dropout(f(x)))        Source: Vaswani et al., "Attention is all you need" (2017), section 3.1
///   pre   y = x + dropout(f(norm(x)))        Source: Xiong et al., "On layer normalization in the Transformer" (2020)
///   both  y = x + dropout(after(f(norm(x)))) with a norm of its own after f. Source: Gemma 2 (2024)
///   none  y = x + dropout(f(x))
/// Pre with layer scale: y = x + dropout(lambda * f(norm(x))), lambda a number for each column. Source: Touvron et al.,
/// "Going deeper with image transformers" (2021).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "qkv/api.h"
#include "qkv/attention/dropout.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/row_blocks.h"

namespace qkv {

enum class NormOrder {
  post,
  pre,
  both,
  none,
  parallel,  ///< of a layer: one pre-norm residual connection around attention and feed-forward side by side (GPT-J,
             /// 2021)
  parallel_norms,  ///< the same, where feed-forward has a norm of its own (GPT-NeoX, 2022)
};

/// What backward needs of a forward pass.
struct ResidualSaved {
  Tensor kept{};   ///< post: x + dropout(f(x)); else norm(x); none: nothing
  Tensor inner{};  ///< both and layer scale: f(norm(x))
};

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API Residual : public Parameterized {
 public:
  /// f in blocks (row_blocks.h).
  using Sublayer = std::function<void(const NormedRows& input, const RowSink& put)>;
  /// f in training: from its input to its output, of the same shape.
  using SublayerForward = std::function<Tensor(const TensorView& input)>;
  /// f backward: adds to grad_input.
  using SublayerBackward =
      std::function<void(const TensorView& input, const TensorView& grad_out, const MutableTensorView& grad_input)>;

  /// Takes the weights of the norm, if there is one; both: also of the other norm, after.*; layer scale (only pre):
  /// layer_scale.weight [dim].
  Residual(const LayerNormConfig& norm, NormOrder order, Weights& weights, const std::string& scope,
           bool layer_scale = false);

  /// x becomes y.
  void forward(Tensor& x, const Sublayer& f, int threads = 0) const;
  Tensor forward(const TensorView& x, const SublayerForward& f, const Dropout& dropout, ResidualSaved& saved,
                 int threads = 0) const;
  /// With the same input and dropout. Adds to grad_x, row-major and of x's shape.
  void backward(const TensorView& x, const SublayerBackward& f, const Dropout& dropout, const ResidualSaved& saved,
                const TensorView& grad_out, Tensor& grad_x, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  NormOrder order_;
  std::optional<LayerNorm> norm_, after_;
  std::optional<Parameter> layer_scale_;
};

}  // namespace qkv
