// One layer of a decoder, as torch.nn.TransformerDecoderLayer: self-attention, causal unless another mask is given,
// attention to the output of the encoder (the memory), then feed-forward, each with a residual connection (residual.h).
// Pre-norm: the memory is not normed. Source: Vaswani et al., "Attention is all you need" (2017), section 3.1.
#pragma once

#include <stop_token>
#include <string>

#include "qkv/layers/encoder_layer.h"

namespace qkv {

using DecoderLayerConfig = TransformerLayerConfig;

struct DecoderLayerOptions {
  Mask self_mask = Mask::causal();
  Bias self_bias{};
  Mask memory_mask{};
  Bias memory_bias{};
  int threads = 0;  // 0: threads()
  std::stop_token stop{};
};

// What backward needs of a forward pass.
struct DecoderLayerSaved {
  MultiHeadAttentionSaved self_attention, memory_attention;
  FeedForwardSaved feed_forward;
  ResidualSaved self_residual, memory_residual, feed_forward_residual;
  Tensor after_self, after_memory;  // between the sublayers
};

// Keys and values kept while generating: of the tokens so far, and of the memory.
struct DecoderLayerCache {
  KeyValueCache self, memory;
};

// Safe for concurrent forward(); only update() and backward() modify it.
class DecoderLayer {
 public:
  // Takes self_attn.*, multihead_attn.*, linear1.*, linear2.*, norm1.*, norm2.* and norm3.*.
  DecoderLayer(const DecoderLayerConfig& config, Weights& weights, const std::string& scope = "");

  // x and memory as in multi_head_attention.h. The observer receives what it receives there, under "self." and
  // "memory.", and then self_norm, memory_norm, feed_forward and feed_forward_norm as in encoder_layer.h.
  Tensor forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options = {},
                 Observer* observer = nullptr) const;

  // For generating: the memory's keys and values are projected once; x [batch, new tokens, model_dim] follows the
  // tokens of the cache and is appended to them. Up to rounding the same as forward over all tokens.
  DecoderLayerCache make_cache(const Sequences& memory, int threads = 0) const;
  Tensor forward(const TensorView& x, DecoderLayerCache& cache, int threads = 0) const;

  // The same for training, with dropout as in encoder_layer.h.
  Tensor forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                 const Dropout& dropout, DecoderLayerSaved& saved) const;
  // With the same inputs, options and dropout, and the gradient of the output: adds to the gradients of the parameters
  // that want them, and to grad_memory, of the memory's shape. Returns the gradient of x.
  Tensor backward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                  const Dropout& dropout, const DecoderLayerSaved& saved, const TensorView& grad_out,
                  const MutableTensorView& grad_memory);

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  MultiHeadAttention self_attention_, memory_attention_;
  FeedForward feed_forward_;
  Residual self_residual_, memory_residual_, feed_forward_residual_;
};

}  // namespace qkv
