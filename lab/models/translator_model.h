// Models that read one sequence and write another: recurrent encoder-decoders with and without attention, and a
// Transformer, of one size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lab/models/measurable.h"
#include "qkv/attention/mask.h"
#include "qkv/models/encoder_decoder.h"
#include "qkv/models/trainable.h"

namespace qkv::comparison {

enum class TranslatorKind { fixed, additive, dot, transformer };

struct TranslatorConfig {
  TranslatorKind kind = TranslatorKind::fixed;
  EncoderDecoderTokens tokens{};
  std::int64_t model_dim = 0;
  std::int64_t ff_dim = 0;  // of a Transformer
};

class TranslatorModel : public TrainableOn<PairBatch>, public Measurable {
 public:
  TranslatorModel(const TranslatorConfig& config, std::uint64_t seed);  // weights to train from
  TranslatorModel(const TranslatorConfig& config, Weights weights);

  LossSum loss(const PairBatch& batch) const override { return model_->loss(batch); }
  LossSum backward(const PairBatch& batch, std::uint64_t) override { return model_->backward(batch, {}); }

  const TranslatorConfig& config() const { return config_; }
  const EncoderDecoder& model() const { return *model_; }

  std::int64_t parameters() const override { return parameter_count(*this); }
  // Source tokens are the inputs, as many target tokens the outputs.
  SequenceGraph graph(std::int64_t length) const override;
  // For a source token and a target token, where both sides have this length.
  double operations_at_once(std::int64_t length) const override;
  double operations_in_turn(std::int64_t length) const override;
  std::int64_t measured_reach(std::int64_t length, std::uint64_t seed) const override;
  void train(std::int64_t sequences, std::int64_t length) override;
  std::shared_ptr<void> answer(std::int64_t length) const override;

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(*model_, scope); }
  double weight_operations() const;
  // For so many pairs of a query and a key in all layers.
  double attention_operations(double pairs) const;

  TranslatorConfig config_;
  std::unique_ptr<EncoderDecoder> model_;
};

}  // namespace qkv::comparison
