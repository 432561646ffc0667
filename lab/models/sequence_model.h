// A model that reads a sequence and says a symbol at each position, knowing what has come so far: embeddings, a body
// and a projection to the symbols. Models of all kinds are the same but for the body.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/models/measurable.h"
#include "lab/models/sequence_body.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/models/trainable.h"

namespace qkv::comparison {

// Sequences side by side: tokens one after the other, offsets as in sequences.h; a label for each token, below 0 where
// nothing is asked.
struct SequenceBatch {
  std::vector<std::int32_t> tokens{};
  std::vector<std::int32_t> labels{};
  Tensor offsets{};
};

struct SequenceModelConfig {
  SequenceKind kind = SequenceKind::rnn;
  std::int64_t vocab = 0;
  std::int64_t embedding = 0;
  std::int64_t width = 0;  // sequence_body.h
};

class SequenceModel : public TrainableOn<SequenceBatch>, public Measurable {
 public:
  // Weights to train from (initial_weights.h); embeddings are normal with deviation 1, as torch.nn.Embedding's.
  SequenceModel(const SequenceModelConfig& config, std::uint64_t seed, Dtype dtype = Dtype::f32);
  SequenceModel(const SequenceModelConfig& config, Weights weights);
  // The same weights in another type.
  SequenceModel(const SequenceModel& other, Dtype dtype);

  // Logits of each token, [tokens, vocab].
  Tensor logits(const SequenceBatch& batch) const;
  LossSum loss(const SequenceBatch& batch) const override;  // its metric: right labels
  LossSum backward(const SequenceBatch& batch, std::uint64_t dropout_seed) override;
  // The same, and the gradient of the summed loss at the embedding of each token, [tokens, embedding].
  Tensor input_gradients(const SequenceBatch& batch);

  // Reads a sequence token by token.
  class Reader {
   public:
    explicit Reader(const SequenceModel& model) : model_(model), steps_(model.body_->steps()) {}
    Tensor read(std::int32_t token);  // logits of the next one, [1, vocab]

   private:
    const SequenceModel& model_;
    std::unique_ptr<BodySteps> steps_;
  };

  const SequenceModelConfig& config() const { return config_; }
  std::int64_t parameters() const override { return parameter_count(*this); }
  SequenceGraph graph(std::int64_t length) const override;
  double operations_at_once(std::int64_t length) const override;
  double operations_in_turn(std::int64_t length) const override;
  std::int64_t measured_reach(std::int64_t length, std::uint64_t seed) const override;
  void train(std::int64_t sequences, std::int64_t length) override;
  std::shared_ptr<void> answer(std::int64_t length) const override;

  std::string metric_name() const override { return "accuracy"; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  Tensor backward(const SequenceBatch& batch, LossSum& loss);
  Tensor project(const Tensor& rows) const;
  double weight_operations() const;

  SequenceModelConfig config_;
  Embedding embedding_;
  std::unique_ptr<SequenceBody> body_;
  Parameter out_weight_, out_bias_;
};

}  // namespace qkv::comparison
