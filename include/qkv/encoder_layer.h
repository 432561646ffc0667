// One layer of an encoder, post-norm as torch.nn.TransformerEncoderLayer is by default:
//   x = norm1(x + self_attn(x)); y = norm2(x + feed_forward(x))
// Source: Vaswani et al., "Attention is all you need" (2017), section 3.1.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/feed_forward.h"
#include "qkv/layer_norm.h"
#include "qkv/multi_head_attention.h"

namespace qkv {

struct EncoderLayerConfig {
  std::int64_t model_dim = 0;
  std::int64_t heads = 1;
  std::int64_t ff_dim = 0;
  Activation activation = Activation::relu;
  double epsilon = 1e-5;  // of both norms
  bool bias = true;       // everywhere
};

// Nothing but update() changes it: any number of threads may call forward.
class EncoderLayer {
 public:
  // Takes self_attn.*, linear1.*, linear2.*, norm1.* and norm2.*.
  EncoderLayer(const EncoderLayerConfig& config, Weights& weights, const std::string& scope = "");

  // Input and output as in multi_head_attention.h. The observer receives what it receives there (its "output" is that
  // of the attention), then attention_norm, feed_forward and feed_forward_norm.
  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options = {}, Observer* observer = nullptr) const;

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  MultiHeadAttention self_attention_;
  FeedForward feed_forward_;
  LayerNorm attention_norm_, feed_forward_norm_;
};

}  // namespace qkv
