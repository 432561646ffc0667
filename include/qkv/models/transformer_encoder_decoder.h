/// \file
/// TransformerEncoderDecoder: the encoder-decoder Transformer that translates, as Hugging Face's folders hold it, and
/// BART, which is the same but for where positions come from. Post-norm, without a final norm, or pre-norm, with one on
/// each side; embeddings may be scaled by the root of model_dim; one table serves both sides, or each has its own, and
/// the target's, transposed, projects the output. Sources: Junczys-Dowmunt et al., "Marian: fast neural machine
/// translation in C++" (2018); Lewis et al., "BART" (2019); Vaswani et al., "Attention is all you need" (2017);
/// Press, Wolf, "Using the output embedding to improve language models" (2016) for the tied table.
///
///     TransformerEncoderDecoder model = TransformerEncoderDecoder::load("models/en-es");
///     Tensor memory = model.encode(ids, offsets);                   // [source tokens, model_dim]
///     Tensor logits = model.logits(batch);                          // [target tokens, vocab]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/layer_norm.h"
#include "qkv/layers/transformer.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv {

enum class TransformerEncoderDecoderKind {
  marian,  ///< sinusoids, sines before cosines, are added to embeddings; padding is never generated
  bart,    ///< each side has a table of learnt positions, whose first two rows are unused, and norms the sum
};

/// How the model knows positions: as its kind has it, or by rotating queries and keys of self-attention instead.
enum class TransformerPositions { of_kind, rotary };

struct TransformerEncoderDecoderConfig {
  TransformerEncoderDecoderKind kind = TransformerEncoderDecoderKind::marian;
  std::int64_t vocab = 0;         ///< of the source
  std::int64_t target_vocab = 0;  ///< of the target side, if each side has a table of its own; 0: one table serves both
  std::int64_t positions = 0;     ///< the longest sequence
  std::int64_t model_dim = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t encoder_heads = 0, decoder_heads = 0;
  std::int64_t encoder_ff_dim = 0, decoder_ff_dim = 0;
  Activation activation = Activation::relu;
  NormOrder norm_order = NormOrder::post;
  Normalization normalization = Normalization::layer;
  TransformerPositions position_kind = TransformerPositions::of_kind;
  bool scale_embedding = true;
  std::int32_t end = 0;      ///< ends every text of either side
  std::int32_t padding = 0;  ///< its embedding gets no gradient; no source holds it
  std::int32_t start = 0;    ///< what the decoder begins with

  EncoderDecoderTokens tokens() const { return {vocab, target_vocab, positions, end, padding, start}; }
  std::int64_t output_vocab() const { return tokens().output_vocab(); }
  bool operator==(const TransformerEncoderDecoderConfig&) const = default;
};

/// Safe for concurrent calls of const members; only update() and backward() modify it.
class QKV_API TransformerEncoderDecoder : public EncoderDecoder {
 public:
  /// `folder` holds config.json and model.safetensors (or an index, and the files that it names), as save() writes
  /// them, or transformers' MarianMTModel, BartForConditionalGeneration and MBartForConditionalGeneration, or their
  /// bare models, whose bias of the logits is 0. FormatError, naming the file and what is wrong, for anything that is
  /// missing, superfluous, of another shape or not supported. `storage` as in weights.h.
  static TransformerEncoderDecoder load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  /// What its config.json says.
  static TransformerEncoderDecoderConfig read_config(const std::string& folder);
  /// The same, after checking the names, shapes and types of all weights without reading them, so that a folder can be
  /// refused before load() fills the memory.
  static TransformerEncoderDecoderConfig check(const std::string& folder);
  /// Writes config.json, generation_config.json and model.safetensors, the weights as `dtype`.
  void save(const std::string& folder, Dtype dtype = Dtype::f32) const override;
  /// The class of transformers that holds such a model; empty: none does, and save() writes it as "qkv".
  static std::string class_of(const TransformerEncoderDecoderConfig& config);
  std::string transformers_class() const override;
  std::string config_text() const override;

  EncoderDecoderTokens tokens() const override;
  /// All three places.
  std::vector<EncoderDecoderAttention> attentions() const override;

  /// Takes shared.weight [vocab, model_dim] (of two tables encoder.embed_tokens.weight and
  /// decoder.embed_tokens.weight), final_logits_bias [output_vocab], encoder.* and decoder.* (transformer.h); bart: on
  /// each side embed_positions.weight [2 + positions, model_dim], unless it is rotary, and embedding_norm.*.
  TransformerEncoderDecoder(const TransformerEncoderDecoderConfig& config, Weights& weights);
  /// Weights to train from (initial_weights.h), and zeros in the row of padding.
  static TransformerEncoderDecoder initial(const TransformerEncoderDecoderConfig& config, std::uint64_t seed,
                                           WeightStorage storage = WeightStorage::full);

  /// The last hidden states of sources, one after the other; offsets as in sequences.h. std::invalid_argument if an id
  /// is not in the table or a sequence is too long. The observer receives "encoder." and "embedding",
  /// "positions", "embedding_norm" if there is one and "embeddings", the input of the layers; then what transformer.h
  /// names.
  Tensor encode(std::span<const std::int32_t> ids, const Tensor& offsets, const EncoderDecoderOptions& options = {},
                Observer* observer = nullptr) const;
  /// The logits of each target token, given those before it. The observer also receives "decoder." and the same
  /// and what transformer.h names.
  Tensor logits(const PairBatch& batch, const EncoderDecoderOptions& options = {},
                Observer* observer = nullptr) const override;

  /// The decoder as generate() needs it, for these sources. The model must outlive it.
  std::unique_ptr<NextTokens> decoder(std::span<const std::int32_t> ids, const Tensor& offsets,
                                      const EncoderDecoderOptions& options = {}) const override;

  /// As in trainable.h.
  LossSum loss(const PairBatch& batch) const override;
  /// Dropout everywhere: embeddings, weights of attention, sublayers, activations.
  LossSum backward(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) override;

  const TransformerEncoderDecoderConfig& config() const { return config_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  class Targets;

  /// What a side has of its own around its stack.
  struct Side {
    /// `own_table` where each side has one.
    Side(const TransformerEncoderDecoderConfig& config, const EmbeddingConfig& own_table, Weights& weights,
         const std::string& scope);

    std::optional<Embedding> table;  ///< none: it is shared
    std::optional<Embedding> positions;
    std::optional<LayerNorm> norm;
  };
  const Embedding& table_of(const Side& side) const;
  Embedding& table_of(Side& side);
  /// Embeddings of ids, scaled, with their positions, normed. `summed`, if given, keeps what was normed; the observer
  /// receives "embedding", "positions" and, if there is a norm, "embedding_norm".
  Tensor embed(const Side& side, std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
               Tensor* summed = nullptr, Observer* observer = nullptr) const;
  void embed_backward(Side& side, std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
                      const Tensor& summed, Tensor& grad);
  /// The last hidden states of the decoder.
  Tensor decode(const PairBatch& batch, const EncoderDecoderOptions& options, Observer* observer) const;

  TransformerEncoderDecoderConfig config_;
  Tensor sinusoids_;                 ///< [positions, model_dim]; none if positions come from elsewhere
  std::optional<Embedding> shared_;  ///< none: each side has its own
  Parameter logits_bias_;
  Side source_, target_;
  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace qkv
