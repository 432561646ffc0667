/// \file
/// BERT: embeddings of words, positions and types, and post-norm encoder layers. Reads the Hugging Face folder of any
/// model of this family, and of RoBERTa, XLM-RoBERTa, DistilBERT and MPNet, which are the same with other positions,
/// without types or with a bias by relative position; and of ModernBERT, with layers like today's language models and
/// windows to both sides in most of them, and ALBERT, whose layers share their weights. Source: Devlin et al., "BERT:
/// Pre-training of deep bidirectional Transformers" (2018).
///
///     TextEncoder model = TextEncoder::load("models/minilm");
///     Tensor hidden = model.forward(tokens);   // [tokens, model_dim], one row per token of the ragged batch
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/relative_table.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/transformer.h"
#include "qkv/observer.h"

namespace qkv {

struct TextEncoderConfig {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;  ///< the longest sequence
  std::int64_t types = 0;      ///< 0: no embeddings of types, for any types of the tokens
  std::int64_t model_dim = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t ff_dim = 0;
  Activation activation = Activation::gelu;
  double epsilon = 1e-12;
  /// RoBERTa: tokens with this id have the row of this number in the table of positions, all others those above,
  /// counted without them. -1: every position counts, from row 0.
  std::int32_t padding = -1;
  /// MPNet: number of T5's buckets, to a distance of 128, in a table added to the logits of every layer
  /// (relative_table.h). 0: none.
  std::int64_t relative_buckets = 0;

  bool learnt_positions = true;  ///< a table of them
  /// One config per layer, if not as layer() says; then the norm of the embeddings has a bias if layers have, and a
  /// final norm follows them.
  std::vector<TransformerLayerConfig> each{};

  /// ALBERT: columns of the tables, which a projection brings to model_dim; 0: model_dim, without one.
  std::int64_t embedding_dim = 0;
  bool shares_layer = false;  ///< ALBERT: all layers are the first one, whose weights are there once

  std::int64_t embedding_columns() const { return embedding_dim == 0 ? model_dim : embedding_dim; }
  std::int64_t position_rows() const { return learnt_positions ? positions + padding + 1 : 0; }
  /// Post-norm, and activations are never dropped, as BERT has it.
  TransformerLayerConfig layer() const {
    return {.model_dim = model_dim,
            .heads = heads,
            .ff_dim = ff_dim,
            .activation = activation,
            .epsilon = epsilon,
            .activation_dropout = false};
  }
};

/// Sequences of tokens, one after the other.
struct TokenBatch {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;  ///< one per id: which segment it belongs to
  Tensor offsets;                   ///< as in sequences.h

  std::int64_t batch() const { return offsets.element_count() - 1; }
};

struct TextEncoderOptions {
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
  std::span<const Mask> masks{};  ///< who may attend to whom, one for each layer; none: all to all
};

/// What backward needs of a forward pass.
struct TextEncoderSaved {
  std::vector<std::int32_t> positions;
  Tensor summed;  ///< embeddings before their norm
  Tensor normed;  ///< what a projection of them reads
  struct Pass {
    Tensor rows;  ///< what the layers read
    EncoderSaved layers;
  };
  std::vector<Pass> passes;  ///< one; of a shared layer one for each
};

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API TextEncoder : public Parameterized {
 public:
  /// `folder` holds config.json, whose model_type is "bert", "roberta", "xlm-roberta", "distilbert", "mpnet",
  /// "modernbert" or "albert", and model.safetensors, whose names may begin with "bert." (or the like), or the files
  /// that its index names; the pooler, the heads of pre-training and position_ids are ignored. FormatError, naming the
  /// file and what is wrong, for anything else that is missing, superfluous, of another shape or not supported.
  /// Matrices of the layers are kept as `storage` says (matmul.h).
  static TextEncoder load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  /// What its config.json says.
  static TextEncoderConfig read_config(const std::string& folder);
  /// The same, after checking the names, shapes and types of all weights without reading them, so that a folder can be
  /// refused before load() fills the memory.
  static TextEncoderConfig check(const std::string& folder);

  /// Takes embeddings.word.weight, embeddings.position.weight if positions are learnt, embeddings.type.weight if there
  /// are types, embeddings.norm.*, embeddings.projection.* if there is an embedding_dim, relative_bias.weight
  /// [relative_buckets, heads] if there are buckets, and layers.N.* (transformer_layer.h).
  TextEncoder(const TextEncoderConfig& config, Weights& weights);

  /// The last hidden states. std::invalid_argument if an id or a type is not in its table, or a sequence is too long.
  /// The observer receives "embedding" (of words and types), "positions" (with these added, if they are learnt),
  /// "embedding_norm" and "embeddings" (both the input of the layers), then what transformer_layer.h names, as
  /// "layers.N.NAME".
  Tensor forward(const TokenBatch& tokens, const TextEncoderOptions& options = {}, Observer* observer = nullptr) const;

  /// The same for training, with dropout of the embeddings, too.
  Tensor forward(const TokenBatch& tokens, const Dropout& dropout, TextEncoderSaved& saved) const;
  /// With the same tokens and dropout, and the gradient of the output: adds to the gradients that are wanted. The
  /// observer receives "layers.N.heads_gradient", of the outputs of the heads.
  void backward(const TokenBatch& tokens, const Dropout& dropout, const TextEncoderSaved& saved,
                const TensorView& grad_out, Observer* observer = nullptr);

  const TextEncoderConfig& config() const { return config_; }
  /// The table of words, to which an output may be tied.
  Parameter& words() { return word_.weight(); }
  /// The bias of the logits of every layer; borrows the model.
  std::optional<RelativeTable> relative_bias() const;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  MultiHeadAttentionOptions attention(int threads) const;

  TextEncoderConfig config_;
  Embedding word_;
  std::optional<Embedding> position_, type_;
  LayerNorm norm_;
  std::optional<Linear> projection_;
  std::optional<Embedding> relative_;  ///< a row of heads for each bucket
  Encoder encoder_;
};

}  // namespace qkv
