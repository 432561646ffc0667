/// \file
/// One layer of a Transformer: self-attention, attention to a memory where the layer has one, then feed-forward, each
/// with a residual connection (residual.h). Without memory as torch.nn.TransformerEncoderLayer, with it as
/// torch.nn.TransformerDecoderLayer. Pre-norm: the memory is not normed. Source: Vaswani et al., "Attention is all you
/// need" (2017), section 3.1.
///
///     EncoderLayer layer({.model_dim = 256, .heads = 4, .ff_dim = 1024}, weights);
///     Tensor y = layer.forward({x, offsets});
///     Tensor z = decoder_layer.forward({target, target_offsets}, {y, offsets});   // causal unless another mask is
///     given
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/feed_forward.h"
#include "qkv/layers/multi_head_attention.h"
#include "qkv/layers/residual.h"

namespace qkv {

struct TransformerLayerConfig {
  std::int64_t model_dim = 0;
  std::int64_t heads = 1;
  std::int64_t ff_dim = 0;
  Activation activation = Activation::relu;
  double epsilon = 1e-5;  ///< of all norms
  bool bias = true;       ///< everywhere but where the two that follow say no
  ProjectionBias attention_bias{};
  bool feed_forward_bias = true;
  bool gated = false;              ///< feed_forward.h
  bool activation_dropout = true;  ///< feed_forward.h
  /// parallel: y = x + attention(norm(x)) + feed_forward(norm(x)), parallel_norms: ... + feed_forward(norm2(x)); both
  /// without memory.
  NormOrder norm_order = NormOrder::post;
  bool attention_norm = true;                          ///< false: nothing is normed around self-attention
  Normalization normalization = Normalization::layer;  ///< rms: norms have no bias
  bool layer_scale = false;                            ///< of every sublayer (residual.h); pre alone
  /// As in multi_head_attention.h, the last three of self-attention alone.
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::optional<double> scale{};
  double soft_cap = 0;
  std::optional<RotaryConfig> rotary{};
  std::optional<AttentionWindow> window{};
  std::optional<double> query_key_norm{};
};
using EncoderLayerConfig = TransformerLayerConfig;
using DecoderLayerConfig = TransformerLayerConfig;

/// Options of a layer with memory.
struct DecoderLayerOptions {
  Mask self_mask = Mask::causal();
  Bias self_bias{};
  Mask memory_mask{};
  Bias memory_bias{};
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
};

/// What a layer, or a stack of them, reads.
struct QKV_API TransformerLayerInput {
  TransformerLayerInput(const Sequences& rows, const MultiHeadAttentionOptions& options) : x(rows), self(options) {}
  TransformerLayerInput(const Sequences& rows, const Sequences& memory_rows, const DecoderLayerOptions& options);

  Sequences x;
  MultiHeadAttentionOptions self;
  std::optional<Sequences> memory{};
  MultiHeadAttentionOptions to_memory{};
};

/// What backward needs of a forward pass.
struct TransformerLayerSaved {
  MultiHeadAttentionSaved self_attention, memory_attention;
  FeedForwardSaved feed_forward;
  ResidualSaved self_residual, memory_residual, feed_forward_residual;
  Tensor after_self, after_memory;  ///< between the sublayers
  Tensor parallel_normed;           ///< norm2(x) of parallel_norms
};
using EncoderLayerSaved = TransformerLayerSaved;
using DecoderLayerSaved = TransformerLayerSaved;

/// Keys and values kept while generating: of the tokens so far, and of the memory.
struct QKV_API TransformerLayerCache {
  KeyValueCache self;
  std::optional<KeyValueCache> memory{};

  /// Sequence b continues the former sequence parents[b], or its first tokens (key_value_cache.h).
  void reorder(std::span<const std::int64_t> parents);
  void reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths);  ///< without memory
};
using DecoderLayerCache = TransformerLayerCache;

enum class LayerMemory { absent, present };

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API TransformerLayer : public Parameterized {
 public:
  using Config = TransformerLayerConfig;
  using Saved = TransformerLayerSaved;
  using Cache = TransformerLayerCache;

  /// Takes self_attn.*, linear1.*, linear2.*, norm1.* (unless attention_norm is false) and norm2.*; with memory also
  /// multihead_attn.* and norm3.*, gated linear3.*; parallel has no norm2. Layer scale has the norm's scope.
  TransformerLayer(const Config& config, LayerMemory memory, Weights& weights, const std::string& scope = "");

  /// x and memory as in multi_head_attention.h. The observer receives the names there ("output" is the attention's),
  /// then attention_norm, the output of the residual connection around attention, feed_forward, and feed_forward_norm,
  /// the output of the residual connection around it. With memory: the two attentions' names under "self." and
  /// "memory.", and self_norm and memory_norm instead of attention_norm.
  Tensor run(const TransformerLayerInput& in, Observer* observer) const;
  /// The same in place: x becomes the output. Long sequences take least memory so (multi_head_attention.h).
  void run(const TransformerLayerInput& in, Tensor& x, Observer* observer) const;
  /// The same for training. `dropout` applies at all sites: attention weights, after each sublayer, after the
  /// activation; the options' own is ignored.
  Tensor run(const TransformerLayerInput& in, const Dropout& dropout, Saved& saved) const;
  /// With the same input and dropout, and the gradient of the output: adds to the gradients of the parameters that want
  /// them, and to grad_memory, of the memory's shape. Returns the gradient of x. The observer receives what backward()
  /// of the attentions gives, under the names of run().
  Tensor run_backward(const TransformerLayerInput& in, const Dropout& dropout, const Saved& saved,
                      const TensorView& grad_out, const MutableTensorView& grad_memory, Observer* observer = nullptr);

  /// For generating: the memory's keys and values are projected once; x, the new tokens of each sequence, follows the
  /// tokens of the cache and is appended to them. Up to rounding the same as a causal forward over all tokens; bit for
  /// bit, if each sequence has two new tokens or more each time. `last` and `queries`: of self-attention
  /// (multi_head_attention.h).
  /// Without memory; keys and values are kept in this type, by default the weights'.
  Cache make_cache(std::int64_t batch, std::optional<Dtype> dtype = {}) const;
  Cache make_cache(const Sequences& memory, int threads = 0) const;  ///< with it
  Tensor forward(const Sequences& x, Cache& cache, int threads = 0, LastWeights* last = nullptr,
                 CacheQueries queries = CacheQueries::together) const;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  /// std::invalid_argument unless the layer has memory if and only if the call has.
  void check(bool memory) const;

  MultiHeadAttention self_attention_;
  std::optional<MultiHeadAttention> memory_attention_;
  FeedForward feed_forward_;
  Residual self_residual_;
  std::optional<Residual> memory_residual_;
  std::optional<Residual> feed_forward_residual_;  ///< none: the layer is parallel
  std::optional<LayerNorm> parallel_norm_;         ///< of feed-forward in a parallel layer, if it has one
};

/// A layer, or a stack of layers, without memory.
template <class Base>
class EncoderOf : public Base {
 public:
  using Base::forward;
  using typename Base::Config, typename Base::Saved;

  EncoderOf(const Config& config, Weights& weights, const std::string& scope = "")
      : Base(config, LayerMemory::absent, weights, scope) {}

  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options = {},
                 Observer* observer = nullptr) const {
    return Base::run({x, options}, observer);
  }
  Tensor forward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                 Saved& saved) const {
    return Base::run({x, options}, dropout, saved);
  }
  Tensor backward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                  const Saved& saved, const TensorView& grad_out, Observer* observer = nullptr) {
    return Base::run_backward({x, options}, dropout, saved, grad_out, {}, observer);
  }
};

/// With memory.
template <class Base>
class DecoderOf : public Base {
 public:
  using Base::forward;
  using typename Base::Config, typename Base::Saved;

  DecoderOf(const Config& config, Weights& weights, const std::string& scope = "")
      : Base(config, LayerMemory::present, weights, scope) {}

  Tensor forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options = {},
                 Observer* observer = nullptr) const {
    return Base::run({x, memory, options}, observer);
  }
  Tensor forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                 const Dropout& dropout, Saved& saved) const {
    return Base::run({x, memory, options}, dropout, saved);
  }
  Tensor backward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                  const Dropout& dropout, const Saved& saved, const TensorView& grad_out,
                  const MutableTensorView& grad_memory, Observer* observer = nullptr) {
    return Base::run_backward({x, memory, options}, dropout, saved, grad_out, grad_memory, observer);
  }
};

using EncoderLayer = EncoderOf<TransformerLayer>;
using DecoderLayer = DecoderOf<TransformerLayer>;

}  // namespace qkv
