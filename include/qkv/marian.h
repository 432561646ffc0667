// Marian: the encoder-decoder Transformer that translates, as Hugging Face's folders hold it. Post-norm, without a
// final norm; sinusoids, sines before cosines, are added to embeddings scaled by the root of model_dim; one table
// serves both sides and, turned round, the output. Sources: Junczys-Dowmunt et al., "Marian: fast neural machine
// translation in C++" (2018); Vaswani et al., "Attention is all you need" (2017); Press, Wolf, "Using the output
// embedding to improve language models" (2016) for the tied table.
//
//   Marian model = Marian::load("models/en-es");
//   Tensor memory = model.encode(ids, offsets);                   // [source tokens, model_dim]
//   Tensor logits = model.logits(batch);                          // [target tokens, vocab]
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/embedding.h"
#include "qkv/generate.h"
#include "qkv/observer.h"
#include "qkv/training.h"
#include "qkv/transformer.h"

namespace qkv {

struct MarianConfig {
  std::int64_t vocab = 0;
  std::int64_t positions = 0;  // the longest sequence
  std::int64_t model_dim = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t encoder_heads = 0, decoder_heads = 0;
  std::int64_t encoder_ff_dim = 0, decoder_ff_dim = 0;
  Activation activation = Activation::relu;
  bool scale_embedding = true;
  std::int32_t end = 0;      // ends every source and target
  std::int32_t padding = 0;  // its row of the table gets no gradient, and it is never written
  std::int32_t start = 0;    // what the decoder begins with

  bool operator==(const MarianConfig&) const = default;
};

struct MarianOptions {
  int threads = 0;  // 0: threads()
  std::stop_token stop{};
};

struct MarianTrainingOptions {
  double dropout = 0;          // everywhere: embeddings, weights of attention, sublayers, activations
  double label_smoothing = 0;  // spread evenly over all tokens but padding
  std::uint64_t seed = 0;      // of dropout
};

// Nothing but update() and backward() changes it: any number of threads may call the others.
class Marian {
 public:
  // Whether config.json of that folder says model_type marian. FormatError or IoError if it cannot be read.
  static bool is_in(const std::string& folder);
  // `folder` holds config.json and model.safetensors, as transformers.MarianMTModel saves them. FormatError, naming the
  // file and what is wrong, for anything that is missing, too much, of another shape or not known here. `storage` as in
  // weights.h.
  static Marian load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  // Writes config.json, generation_config.json and model.safetensors, the weights as `dtype`.
  void save(const std::string& folder, Dtype dtype = Dtype::f32) const;

  // Takes shared.weight [vocab, model_dim], final_logits_bias [vocab], encoder.* and decoder.* (transformer.h).
  Marian(const MarianConfig& config, Weights& weights);
  // Weights to train from (initial_weights.h), and zeros in the row of padding.
  static Marian initial(const MarianConfig& config, std::uint64_t seed);

  // The last hidden states of sources, one after the other; offsets as in sequences.h. std::invalid_argument if an id
  // is not in the table or a sequence is too long. The observer receives "encoder.embeddings", then what transformer.h
  // names.
  Tensor encode(std::span<const std::int32_t> ids, const Tensor& offsets, const MarianOptions& options = {},
                Observer* observer = nullptr) const;
  // What the decoder says of each target token, given those before it. The observer also receives "decoder.embeddings"
  // and what transformer.h names.
  Tensor logits(const PairBatch& batch, const MarianOptions& options = {}, Observer* observer = nullptr) const;

  // What generate() asks of the decoder, for these sources. The model must outlive it.
  std::unique_ptr<NextTokens> targets(std::span<const std::int32_t> ids, const Tensor& offsets,
                                      const MarianOptions& options = {}) const;

  // As in training.h.
  LossSum loss(const PairBatch& batch) const;
  LossSum backward(const PairBatch& batch, const MarianTrainingOptions& options);

  const MarianConfig& config() const { return config_; }
  void visit(const ParameterVisitor& visitor) const;
  void update(const ParameterUpdater& updater);

 private:
  class Targets;

  void pack(WeightStorage storage);
  // Embeddings of ids, scaled, with their positions.
  Tensor embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions) const;
  Tensor embed(std::span<const std::int32_t> ids, const Tensor& offsets) const;
  void embed_backward(std::span<const std::int32_t> ids, Tensor& grad);
  // The last hidden states of the decoder.
  Tensor decode(const PairBatch& batch, const MarianOptions& options, Observer* observer) const;

  MarianConfig config_;
  Tensor positions_;  // [positions, model_dim]
  Embedding shared_;
  Parameter logits_bias_;
  PackedMatrix projection_;  // to the vocabulary: shared_ turned round
  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace qkv
