// What tests of trainings share: what a training says, its end after some updates, weights bit by bit, changed configs,
// messages, and a model of a hundred weights.
#pragma once

#include "io/files_for_test.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/random.h"
#include "qkv/train/training.h"

namespace qkv::test {

// Keeps what a training says, and calls back at each update.
class Watcher : public TrainingObserver {
 public:
  void receive(const TrainingProgress& progress) override {
    last = progress;
    if (on_step) on_step(progress);
  }
  void receive(const Validation& validation) override { validations.push_back(validation); }
  void notice(const std::string& text) override { notices.push_back(text); }

  TrainingProgress last{};
  std::vector<Validation> validations{};
  std::vector<std::string> notices{};
  std::function<void(const TrainingProgress&)> on_step{};
};

// Ends a training, which throws Stopped, after so many updates.
class Stopper : public Watcher {
 public:
  explicit Stopper(std::int64_t step) {
    on_step = [this, step](const TrainingProgress& progress) {
      if (progress.step == step) source_.request_stop();
    };
  }
  Stopper(const Stopper&) = delete;

  TrainingOptions options() { return {.observer = this, .stop = source_.get_token()}; }

 private:
  std::stop_source source_{};
};

// All weights, in order; they are f32.
inline std::string weight_bytes(const Trainable& model) {
  std::string bytes;
  model.visit([&](const std::string&, const Parameter& p) {
    bytes.append(reinterpret_cast<const char*>(p.value.data<float>()),
                 static_cast<std::size_t>(p.value.element_count()) * sizeof(float));
  });
  return bytes;
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nmust have: " << part;
}

// That call() throws the error, with such a message.
template <class Error, class Call>
void expect_refusal(const Call& call, const std::string& part) {
  expect_contains(message_of<Error>(call), part);
}

// The text with the first `from` replaced, which must be there.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

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

  LossSum loss(const PairBatch& batch) const override { return run(batch, 0, {}); }
  // The seed moves the gradient a little, as dropout would.
  LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) override {
    const double noise = 1e-3 * Random(dropout_seed).uniform();
    return run(batch, noise, {.weight = table_.gradient, .bias = bias_.gradient});
  }
  std::string bits() const { return weight_bytes(*this); }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override {
    walk(table_, scope + "table");
    walk(bias_, scope + "bias");
  }
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
    return cross_entropy({.weight = table_.value, .bias = bias_.value}, means, batch.target, {}, gradients);
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
