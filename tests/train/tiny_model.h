// The smallest model that the trainer can train: a target token's logits are the mean of the rows that the source
// tokens choose in a table, plus a bias. And data that it can learn in part.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "qkv/random.h"
#include "qkv/train/training.h"
#include "train/watcher.h"

namespace qkv::test {

class TinyModel : public TrainableOn<PairBatch> {
 public:
  static constexpr std::int64_t kVocab = 11;

  TinyModel() {
    Random random(3);
    table_.value = Tensor::uninitialized({kVocab, kVocab});
    for (std::int64_t i = 0; i < kVocab * kVocab; ++i) {
      table_.value.data<float>()[i] = 0.1f * static_cast<float>(random.normal());
    }
    bias_.value = Tensor::zeros({kVocab});
  }

  void visit(const ParameterVisitor& visitor) const override {
    visitor("table", table_);
    visitor("bias", bias_);
  }
  void update(const ParameterUpdater& updater) override {
    updater("table", table_);
    updater("bias", bias_);
  }
  LossSum loss(const PairBatch& batch) const override {
    TinyModel copy = *this;
    for (Parameter* own : {&copy.table_, &copy.bias_}) own->want_gradient();
    return copy.backward(batch, 0);
  }
  // The seed moves the gradient a little, as dropout would.
  LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) override {
    const double noise = 1e-3 * Random(dropout_seed).uniform();
    LossSum sum;
    for (std::int64_t b = 0; b + 1 < batch.source_offsets.element_count(); ++b) {
      const auto source = part(batch.source, batch.source_offsets, b);
      const auto count = static_cast<double>(source.size());
      std::vector<double> p;
      for (std::int64_t o = 0; o < kVocab; ++o) {
        double logit = bias_.value.data<float>()[o];
        for (const std::int32_t s : source) logit += double{table_.value.data<float>()[s * kVocab + o]} / count;
        p.push_back(std::exp(logit));
      }
      const double total = std::accumulate(p.begin(), p.end(), 0.0);
      for (const std::int32_t token : part(batch.target, batch.target_offsets, b)) {
        sum.sum -= std::log(p[static_cast<std::size_t>(token)] / total);
        sum.nll = sum.sum;
        ++sum.count;
        for (std::int64_t o = 0; o < kVocab; ++o) {
          const double slope = p[static_cast<std::size_t>(o)] / total - (o == token ? 1 : 0) + noise;
          bias_.gradient.data<float>()[o] += static_cast<float>(slope);
          for (const std::int32_t s : source) {
            table_.gradient.data<float>()[s * kVocab + o] += static_cast<float>(slope / count);
          }
        }
      }
    }
    return sum;
  }

  // All weights as bytes.
  std::string bits() const { return test::weight_bytes(*this); }

 private:
  static std::span<const std::int32_t> part(const std::vector<std::int32_t>& tokens, const Tensor& offsets,
                                            std::int64_t b) {
    const std::int32_t* at = offsets.data<std::int32_t>() + b;
    return std::span(tokens).subspan(static_cast<std::size_t>(at[0]), static_cast<std::size_t>(at[1] - at[0]));
  }

  Parameter table_, bias_;
};

// A source is one token, several times; its target the next one.
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
