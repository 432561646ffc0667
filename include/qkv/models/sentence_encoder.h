/// \file
/// An encoder that makes a vector of each text, trained on pairs of texts that belong together. In a batch, each text
/// should be nearer to its partner than to the partners of all others:
///   loss = sum over i of cross-entropy(softmax over j of cos(first_i, second_j) / temperature, i)
/// Source: van den Oord et al., "Representation learning with contrastive predictive coding" (2018); as
/// MultipleNegativesRankingLoss of sentence-transformers, whose scale is 1 / temperature.
///
///     SentenceEncoder model(TextEncoder::load("encoder"), SentencePooling::mean);
///     LossSum sum = model.backward({firsts, seconds}, {.temperature = 0.05, .chunk = 32});
#pragma once

#include <cstdint>
#include <string>

#include "qkv/api.h"
#include "qkv/dtype.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/trainable.h"

namespace qkv {

/// Pooling of a text's vector, which is then normalised to length 1.
enum class SentencePooling {
  mean,   ///< the mean of all tokens
  first,  ///< the first token
};

/// Sequence i of both belong together.
struct SentencePairs {
  TokenBatch first, second;
};

struct SentenceTrainingOptions {
  double temperature = 0.05;
  /// Texts whose activations are kept at a time: gradients of all vectors are found first, then each chunk passes
  /// through the encoder again. Source: Gao et al., "Scaling deep contrastive learning batch size under memory limited
  /// setup" (2021), GradCache. 0: all.
  std::int64_t chunk = 0;
  double label_smoothing = 0;  ///< spread evenly over the partners of a batch
  double dropout = 0;          ///< in embeddings, weights of attention, sublayers and activations
  std::uint64_t seed = 0;      ///< of dropout
};

/// Safe for concurrent const calls; only update() and backward() modify it.
class QKV_API SentenceEncoder : public Parameterized {
 public:
  SentenceEncoder(TextEncoder encoder, SentencePooling pooling);

  /// [batch, model_dim], each of length 1. std::invalid_argument as from TextEncoder::forward, and for a sequence
  /// without tokens.
  Tensor embed(const TokenBatch& texts) const;
  /// As in trainable.h, with the metric how many texts are nearest to their partners. std::invalid_argument as above,
  /// unless both sides have as many sequences, and for a temperature that is not above 0.
  LossSum loss(const SentencePairs& batch, const SentenceTrainingOptions& options = {}) const;
  LossSum backward(const SentencePairs& batch, const SentenceTrainingOptions& options);

  /// Writes config.json of the encoder's folder `from`; the files that say how vectors are made (modules.json and those
  /// that it names), where texts have at most `max_length` tokens; and model.safetensors, the weights as `dtype`: as
  /// Embedder and sentence-transformers open them.
  void save(const std::string& folder, const std::string& from, std::int64_t max_length,
            Dtype dtype = Dtype::f32) const;

  const TextEncoder& encoder() const { return encoder_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(encoder_, scope); }

  TextEncoder encoder_;
  SentencePooling pooling_;
};

}  // namespace qkv
