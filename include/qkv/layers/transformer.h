/// \file
/// Stacks of encoder and decoder layers, and both together with the semantics of torch.nn.Transformer: no embedding, no
/// positions, no output projection. Source: Vaswani et al., "Attention is all you need" (2017), section 3.
///
///     Weights weights = initial_weights(1);                                        // or read from a file
///     Transformer model({.layer = {.model_dim = 256, .heads = 4, .ff_dim = 1024}, .encoder_layers = 3,
///                        .decoder_layers = 3}, weights);
///     Tensor out = model.forward({source, source_offsets}, {target, target_offsets});   // [target tokens, model_dim]
///
/// Batches are ragged, and then padding costs nothing, or padded, and then masks say what is padding.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/transformer_layer.h"

namespace qkv {

struct StackConfig {
  TransformerLayerConfig layer{};
  std::int64_t layers = 6;
  std::vector<TransformerLayerConfig> each{};  ///< one per layer, if they differ; empty: all are as `layer`
  bool final_norm = true;                      ///< with the epsilon and the bias of the layers
};

/// What backward needs of a forward pass.
struct StackSaved {
  std::vector<TransformerLayerSaved> layers;
  std::vector<Tensor> between;  ///< what follows each layer but the last, and the last one if a final norm follows it
};
using EncoderSaved = StackSaved;
using DecoderSaved = StackSaved;

/// What goes with the masks of the input in each layer, one mask per layer; none: nothing.
struct StackMasks {
  std::span<const Mask> self{}, memory{};
};

struct QKV_API StackCache {
  std::vector<TransformerLayerCache> layers;

  /// As in a layer.
  void reorder(std::span<const std::int64_t> parents);
  void reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths);
};
using DecoderCache = StackCache;

/// Layers one after the other, and a norm if the config has it. Safe for concurrent forward(); only update() and
/// backward() modify it.
class QKV_API TransformerStack : public Parameterized {
 public:
  using Config = StackConfig;
  using Saved = StackSaved;
  using Cache = StackCache;

  /// Takes layers.N.* (transformer_layer.h) and norm.*.
  TransformerStack(const Config& config, LayerMemory memory, Weights& weights, const std::string& scope = "");

  /// As in transformer_layer.h; the observer receives "layers.N.NAME", then "norm". std::invalid_argument if there are
  /// masks, and another number of them than of layers.
  Tensor run(const TransformerLayerInput& in, Observer* observer, const StackMasks& masks = {}) const;
  void run(const TransformerLayerInput& in, Tensor& x, Observer* observer, const StackMasks& masks = {}) const;
  Tensor run(const TransformerLayerInput& in, const Dropout& dropout, Saved& saved) const;
  Tensor run_backward(const TransformerLayerInput& in, const Dropout& dropout, const Saved& saved,
                      const TensorView& grad_out, const MutableTensorView& grad_memory, Observer* observer = nullptr);
  Cache make_cache(std::int64_t batch, std::optional<Dtype> dtype = {}) const;
  Cache make_cache(const Sequences& memory, int threads = 0) const;
  /// `last`: of each layer; none: nothing.
  Tensor forward(const Sequences& x, Cache& cache, int threads = 0, std::span<LastWeights> last = {},
                 CacheQueries queries = CacheQueries::together) const;
  /// The final norm of rows [n, model_dim]; a copy if there is none.
  Tensor final_norm(const TensorView& rows, int threads = 0) const;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  std::vector<TransformerLayer> layers_;
  std::optional<LayerNorm> norm_;
};

using Encoder = EncoderOf<TransformerStack>;
using Decoder = DecoderOf<TransformerStack>;

struct TransformerConfig {
  TransformerLayerConfig layer{};
  std::int64_t encoder_layers = 6;
  std::int64_t decoder_layers = 6;
  bool final_norms = true;
};

/// Masks and biases of the three attentions. Padded batches of known lengths: Mask::lengths(source lengths) for
/// source_mask and memory_mask.
struct TransformerOptions {
  Mask source_mask{};
  Bias source_bias{};
  Mask target_mask = Mask::causal();
  Bias target_bias{};
  Mask memory_mask{};
  Bias memory_bias{};
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
};

/// What backward needs of a forward pass.
struct TransformerSaved {
  EncoderSaved encoder;
  DecoderSaved decoder;
  Tensor memory;
};

struct TransformerGradients {
  Tensor source, target;  ///< of the inputs, in their shapes
};

class QKV_API Transformer : public Parameterized {
 public:
  /// Takes encoder.* and decoder.*.
  Transformer(const TransformerConfig& config, Weights& weights, const std::string& scope = "");

  /// source and target [batch, length, model_dim] or ragged -> in the target's shape. The observer receives
  /// "encoder.NAME", then "decoder.NAME".
  Tensor forward(const Sequences& source, const Sequences& target, const TransformerOptions& options = {},
                 Observer* observer = nullptr) const;
  /// The same for training, with dropout as in transformer_layer.h.
  Tensor forward(const Sequences& source, const Sequences& target, const TransformerOptions& options,
                 const Dropout& dropout, TransformerSaved& saved) const;
  /// With the same inputs, options and dropout, and the gradient of the output: adds to the gradients of the parameters
  /// that want them.
  TransformerGradients backward(const Sequences& source, const Sequences& target, const TransformerOptions& options,
                                const Dropout& dropout, const TransformerSaved& saved, const TensorView& grad_out);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace qkv
