// Recurrent encoder-decoders, which translated before the Transformer: the encoder's last states begin the decoder's.
//   fixed     the decoder sees nothing else of the source: one vector of fixed size holds it. Sutskever, Vinyals, Le,
//             "Sequence to sequence learning with neural networks" (2014).
//   additive  before each step the state s of the last one attends to the encoder's outputs h: e_j = v . tanh(W s + U
//             h_j); the sum c of the h_j, weighted by softmax(e), goes into the step beside the token. Bahdanau, Cho,
//             Bengio, "Neural machine translation by jointly learning to align and translate" (2014).
//   dot, bilinear   after each step its state attends: e_j = s . h_j, or s^T W h_j. Luong, Pham, Manning, "Effective
//             approaches to attention-based neural machine translation" (2015), without input feeding.
// Those that attend write tanh(W_r [s; c] + b) to the projection, fixed writes s; the table of embeddings, transposed,
// projects to the vocabulary (as marian.h has it). Of two directions each has half of model_dim.
//
//   RecurrentEncoderDecoder model = RecurrentEncoderDecoder::initial({.kind = RecurrentAttentionKind::additive, .vocab
//   = 100, .model_dim = 64, ...}, 1);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lab/layers/recurrent_cell.h"
#include "qkv/models/encoder_decoder.h"

namespace qkv {

enum class RecurrentAttentionKind { fixed, additive, dot, bilinear };

struct RecurrentEncoderDecoderConfig {
  RecurrentAttentionKind kind = RecurrentAttentionKind::additive;
  RecurrentCell cell = RecurrentCell::gru;
  std::int64_t vocab = 0, target_vocab = 0, positions = 0;  // as in EncoderDecoderTokens
  std::int64_t model_dim = 0;
  int layers = 1;      // of the encoder, and of the decoder
  int directions = 1;  // of the encoder
  std::int32_t end = 0, padding = 0, start = 0;

  EncoderDecoderTokens tokens() const { return {vocab, target_vocab, positions, end, padding, start}; }
  std::int64_t output_vocab() const { return tokens().output_vocab(); }
  bool operator==(const RecurrentEncoderDecoderConfig&) const = default;
};

class RecurrentEncoderDecoder : public EncoderDecoder {
 public:
  // `folder` holds config.json ("model_type": "qkv-seq2seq") and model.safetensors, as save() writes them. FormatError,
  // naming the file and what is wrong.
  static RecurrentEncoderDecoder load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  static RecurrentEncoderDecoderConfig check(const std::string& folder);

  // Takes shared.weight [vocab, model_dim] (of two tables encoder.embed_tokens.weight and
  // decoder.embed_tokens.weight), final_logits_bias [output_vocab], encoder.rnn.* and decoder.rnn.* (recurrent.h),
  // attention.* (scored_attention.h) and readout.* [model_dim, 2 * model_dim].
  RecurrentEncoderDecoder(const RecurrentEncoderDecoderConfig& config, Weights& weights);
  RecurrentEncoderDecoder(RecurrentEncoderDecoder&&) noexcept;
  RecurrentEncoderDecoder& operator=(RecurrentEncoderDecoder&&) noexcept;
  ~RecurrentEncoderDecoder() override;

  // Weights to train from: recurrent layers as torch's (draw_recurrent), the rest as initial_weights.h.
  static RecurrentEncoderDecoder initial(const RecurrentEncoderDecoderConfig& config, std::uint64_t seed,
                                         WeightStorage storage = WeightStorage::full);

  EncoderDecoderTokens tokens() const override;
  // One in the place of memory; none if it is fixed.
  std::vector<EncoderDecoderAttention> attentions() const override;

  // The observer receives "encoder.output", "decoder.attention.0." and what scored_attention.h names, and
  // "decoder.output".
  Tensor logits(const PairBatch& batch, const EncoderDecoderOptions& options = {},
                Observer* observer = nullptr) const override;
  std::unique_ptr<NextTokens> decoder(std::span<const std::int32_t> ids, const Tensor& offsets,
                                      const EncoderDecoderOptions& options = {}) const override;
  LossSum loss(const PairBatch& batch) const override;
  // Dropout: embeddings, between recurrent layers, and what is projected to the vocabulary.
  LossSum backward(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) override;
  void save(const std::string& folder, Dtype dtype = Dtype::f32) const override;
  std::string transformers_class() const override { return {}; }
  std::string config_text() const override;

  const RecurrentEncoderDecoderConfig& config() const { return config_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  class Targets;
  struct Parts;

  RecurrentEncoderDecoderConfig config_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace qkv
