// One layer of an encoder, as torch.nn.TransformerEncoderLayer: self-attention, then feed-forward, each with a residual
// connection (residual.h). Source: Vaswani et al., "Attention is all you need" (2017), section 3.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "qkv/layers/feed_forward.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/residual.h"

namespace qkv {

// Of encoder and decoder layers.
struct TransformerLayerConfig {
  std::int64_t model_dim = 0;
  std::int64_t heads = 1;
  std::int64_t ff_dim = 0;
  Activation activation = Activation::relu;
  double epsilon = 1e-5;  // of all norms
  bool bias = true;       // everywhere
  NormOrder norm_order = NormOrder::post;
  Normalization normalization = Normalization::layer;  // rms: norms have no bias
  std::optional<RotaryConfig> rotary{};                // of self-attention (multi_head_attention.h)
};
using EncoderLayerConfig = TransformerLayerConfig;

// What backward needs of a forward pass.
struct EncoderLayerSaved {
  MultiHeadAttentionSaved attention;
  FeedForwardSaved feed_forward;
  ResidualSaved attention_residual, feed_forward_residual;
  Tensor middle;  // between the two
};

// Safe for concurrent forward(); only update() and backward() modify it.
class EncoderLayer {
 public:
  // Takes self_attn.*, linear1.*, linear2.*, norm1.* and norm2.*.
  EncoderLayer(const EncoderLayerConfig& config, Weights& weights, const std::string& scope = "");

  // Input and output as in multi_head_attention.h. The observer receives what it receives there (its "output" is that
  // of the attention), then attention_norm, what the residual connection around attention gives, feed_forward, and
  // feed_forward_norm, what the one around it gives.
  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options = {}, Observer* observer = nullptr) const;

  // The same for training. `dropout` applies at all sites: attention weights, after each sublayer, after the
  // activation; that of `options` is ignored.
  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                 EncoderLayerSaved& saved) const;
  // With the same input, options and dropout, and the gradient of the output: adds to the gradients of the parameters
  // that want them. Returns the gradient of the input.
  Tensor backward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                  const EncoderLayerSaved& saved, const TensorView& grad_out);

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  MultiHeadAttention self_attention_;
  FeedForward feed_forward_;
  Residual attention_residual_, feed_forward_residual_;
};

}  // namespace qkv
