// A model of a hundred weights, and pairs for it.
#pragma once

#include <string>
#include <vector>

#include "qkv/layers/cross_entropy.h"
#include "qkv/random.h"
#include "train/watcher.h"

namespace qkv::test {

// The smallest model that the trainer can train: a target token's logits are the mean of the columns that the source
// tokens choose in a table, plus a bias.
class TinyModel : public TrainableOn<PairBatch> {
 public:
  static constexpr std::int64_t kVocab = 11;

  TinyModel() {
    Random random(3);
    for (std::int64_t i = 0; i < kVocab * kVocab; ++i) {
      table_.value.data<float>()[i] = 0.1f * static_cast<float>(random.normal());
    }
  }

  void visit(const ParameterVisitor& visitor) const override {
    visitor("table", table_);
    visitor("bias", bias_);
  }
  void update(const ParameterUpdater& updater) override {
    updater("table", table_);
    updater("bias", bias_);
  }
  LossSum loss(const PairBatch& batch) const override { return run(batch, 0, {}); }
  // The seed moves the gradient a little, as dropout would.
  LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) override {
    const double noise = 1e-3 * Random(dropout_seed).uniform();
    return run(batch, noise, {.weight = table_.gradient, .bias = bias_.gradient});
  }
  std::string bits() const { return weight_bytes(*this); }

 private:
  LossSum run(const PairBatch& batch, double noise, const CrossEntropyGradients& gradients) const {
    Tensor means = Tensor::zeros({std::ssize(batch.target), kVocab});
    const std::int32_t *sources = batch.source_offsets.data<std::int32_t>(),
                       *targets = batch.target_offsets.data<std::int32_t>();
    for (std::int64_t b = 0; b + 1 < batch.source_offsets.element_count(); ++b) {
      const float share = static_cast<float>(1 + noise) / static_cast<float>(sources[b + 1] - sources[b]);
      for (std::int32_t row = targets[b]; row < targets[b + 1]; ++row) {
        for (std::int32_t s = sources[b]; s < sources[b + 1]; ++s) {
          means.data<float>()[row * kVocab + batch.source[static_cast<std::size_t>(s)]] += share;
        }
      }
    }
    const CrossEntropy sum =
        cross_entropy({.weight = table_.value, .bias = bias_.value}, means, batch.target, {}, gradients);
    return {.sum = sum.loss, .nll = sum.nll, .count = sum.targets};
  }

  Parameter table_{.value = Tensor::zeros({kVocab, kVocab})}, bias_{.value = Tensor::zeros({kVocab})};
};

// What it can learn in part: a source is one token, several times; its target the next one.
inline std::vector<TokenPair> tiny_pairs(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    const auto token = static_cast<std::int32_t>(random.below(TinyModel::kVocab));
    pairs.push_back({std::vector<std::int32_t>(1 + random.below(4), token),
                     std::vector<std::int32_t>(1 + random.below(4), (token + 1) % TinyModel::kVocab)});
  }
  return pairs;
}

}  // namespace qkv::test
