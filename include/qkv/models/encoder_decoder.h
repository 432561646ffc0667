/// \file
/// The interface of every encoder-decoder: logits and loss, the next token, lists of attentions and weights.
/// TransformerEncoderDecoder and RecurrentEncoderDecoder implement it; translating, training and explaining use nothing
/// else.
///
///     std::unique_ptr<EncoderDecoder> model = EncoderDecoder::load("models/en-es");
///     Tensor logits = model->logits(batch);                         // [target tokens, vocab]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/score.h"
#include "qkv/decode/generate.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"
#include "qkv/models/token_pairs.h"
#include "qkv/models/trainable.h"
#include "qkv/observer.h"

namespace qkv {

/// The tokens that a model reads and writes.
struct EncoderDecoderTokens {
  std::int64_t vocab = 0;         ///< of the source
  std::int64_t target_vocab = 0;  ///< of the target side, if each side has a table of its own; 0: one table serves both
  std::int64_t positions = 0;     ///< the longest sequence
  std::int32_t end = 0;           ///< ends every text of either side
  std::int32_t padding = 0;       ///< its embedding gets no gradient; no source holds it
  std::int32_t start = 0;         ///< the first token of the decoder

  /// How many tokens can be generated.
  std::int64_t output_vocab() const { return target_vocab > 0 ? target_vocab : vocab; }
  bool operator==(const EncoderDecoderTokens&) const = default;
};

/// Additional masks, one for each layer of a place of attention; none: only the model's own.
struct EncoderDecoderMasks {
  std::span<const Mask> encoder{}, decoder{}, memory{};
};

struct EncoderDecoderOptions {
  int threads = 0;  ///< 0: threads()
  std::stop_token stop{};
  EncoderDecoderMasks masks{};  ///< not of decoder()
};

struct EncoderDecoderTrainingOptions {
  double dropout = 0;          ///< as the kind says
  double label_smoothing = 0;  ///< spread evenly over all tokens that can be generated
  std::uint64_t seed = 0;      ///< of dropout
  /// The loss of this target token alone, by its place in the batch, among all tokens that there are.
  std::optional<std::int64_t> only{};
  Observer* observer = nullptr;  ///< receives the heads_gradient of each attention, under the names of logits()
};

/// One of the three places of attention, the same in all layers.
struct EncoderDecoderAttention {
  enum class Place { encoder, decoder, memory };  ///< memory: target tokens attend to source tokens
  Place place = Place::memory;
  std::string before{}, after{};  ///< names of its intermediates, around the number of the layer
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t model_dim = 0;
  Score::Kind score = Score::Kind::scaled_dot;
};

/// Safe for concurrent calls of const members; only update() and backward() modify it.
class QKV_API EncoderDecoder : public Parameterized {
 public:
  /// Whether config.json of that folder is one of an encoder-decoder, supported or not. FormatError or IoError if it
  /// cannot be read.
  static bool is_in(const std::string& folder);
  /// The kind that config.json names, as TransformerEncoderDecoder::load() and RecurrentEncoderDecoder::load() read it.
  /// FormatError for any other.
  static std::unique_ptr<EncoderDecoder> load(const std::string& folder, WeightStorage storage = WeightStorage::full);
  /// The same check without reading the weights.
  static EncoderDecoderTokens check(const std::string& folder);

  virtual EncoderDecoderTokens tokens() const = 0;
  virtual std::vector<EncoderDecoderAttention> attentions() const = 0;

  /// The logits of each target token, given those before it; the observer receives what the kind names.
  /// std::invalid_argument if an id is not in the table or a sequence is too long.
  virtual Tensor logits(const PairBatch& batch, const EncoderDecoderOptions& options = {},
                        Observer* observer = nullptr) const = 0;
  /// The decoder as generate() needs it, for these sources; offsets as in sequences.h. The model must outlive it.
  virtual std::unique_ptr<NextTokens> decoder(std::span<const std::int32_t> ids, const Tensor& offsets,
                                              const EncoderDecoderOptions& options = {}) const = 0;

  /// As in trainable.h.
  virtual LossSum loss(const PairBatch& batch) const = 0;
  virtual LossSum backward(const PairBatch& batch, const EncoderDecoderTrainingOptions& options) = 0;

  /// Writes config.json, generation_config.json and model.safetensors, the weights as `dtype`.
  virtual void save(const std::string& folder, Dtype dtype = Dtype::f32) const = 0;
  /// The class of transformers that opens a saved folder; empty: none.
  virtual std::string transformers_class() const = 0;
  /// Equal for models that differ only in their weights: the config's part of fingerprint().
  virtual std::string config_text() const = 0;
};

}  // namespace qkv
