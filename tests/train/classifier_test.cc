// The loop on another kind of example, loss and measure: texts of tokens with a label each, a classifier of an
// embedding, its mean and a linear layer, and validation by accuracy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/files_for_test.h"
#include "qkv/layers/cross_entropy.h"
#include "qkv/layers/embedding.h"
#include "qkv/layers/linear.h"
#include "qkv/random.h"
#include "train/watcher.h"
#include "train/weight_bytes.h"

namespace qkv {
namespace {

using test::Stopper;
using test::Watcher;

constexpr std::int64_t kVocab = 9, kLabels = 3, kDim = 4;

struct LabelledText {
  std::vector<std::int32_t> tokens;
  std::int32_t label;
};

struct TextBatch {
  std::vector<LabelledText> texts;
};

class TextExamples : public Examples<TextBatch> {
 public:
  explicit TextExamples(std::vector<LabelledText> texts) : texts_(std::move(texts)) {}

  std::int64_t count() const override { return std::ssize(texts_); }
  ExampleSize size(std::int64_t i) const override {
    const std::int64_t tokens = std::ssize(texts_[static_cast<std::size_t>(i)].tokens);
    return {.cost = tokens, .length = tokens};
  }
  std::uint32_t checksum() const override {
    std::uint32_t sum = 0;
    for (const LabelledText& text : texts_) {
      for (const std::int32_t token : text.tokens) sum = 31 * sum + static_cast<std::uint32_t>(token) + 1;
      sum = 31 * sum + static_cast<std::uint32_t>(text.label);
    }
    return sum;
  }
  TextBatch collect(std::span<const std::uint32_t> chosen) const override {
    TextBatch batch;
    for (const std::uint32_t number : chosen) batch.texts.push_back(texts_[number]);
    return batch;
  }

 private:
  std::vector<LabelledText> texts_;
};

// The label of a text is that of most of its tokens, which have the label of a third of the vocabulary each.
std::vector<LabelledText> texts(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<LabelledText> all;
  while (all.size() < count) {
    LabelledText text{std::vector<std::int32_t>(1 + random.below(7)), 0};
    std::vector<int> votes(kLabels);
    for (std::int32_t& token : text.tokens) {
      token = static_cast<std::int32_t>(random.below(kVocab));
      ++votes[static_cast<std::size_t>(token) % kLabels];
    }
    const auto most = std::max_element(votes.begin(), votes.end());
    text.label = static_cast<std::int32_t>(most - votes.begin());
    if (std::count(votes.begin(), votes.end(), *most) == 1) all.push_back(std::move(text));
  }
  return all;
}

Tensor random_weights(const Dims& shape, std::uint64_t seed) {
  Random random(seed);
  Tensor weights = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < weights.element_count(); ++i) {
    weights.data<float>()[i] = 0.1f * static_cast<float>(random.normal());
  }
  return weights;
}

class Classifier : public TrainableOn<TextBatch> {
 public:
  Classifier()
      : Classifier(Weights({{"table.weight", random_weights({kVocab, kDim}, 1)},
                            {"out.weight", random_weights({kLabels, kDim}, 2)},
                            {"out.bias", Tensor::zeros({kLabels})}},
                           "test")) {}

  void visit(const ParameterVisitor& visitor) const override {
    table_.visit(visitor, "table.");
    visitor("out.weight", weight_);
    visitor("out.bias", bias_);
  }
  void update(const ParameterUpdater& updater) override {
    table_.update(updater, "table.");
    updater("out.weight", weight_);
    updater("out.bias", bias_);
  }
  std::string metric_name() const override { return "accuracy"; }

  LossSum backward(const TextBatch& batch, std::uint64_t) override {
    const Tensor means = means_of(batch);
    Tensor grad_means = Tensor::zeros(means.shape());
    const CrossEntropy sum = cross_entropy({weight_.value, bias_.value}, means, labels_of(batch), {},
                                           {grad_means, weight_.gradient, bias_.gradient});
    for (std::size_t t = 0; t < batch.texts.size(); ++t) {
      const std::vector<std::int32_t>& tokens = batch.texts[t].tokens;
      Tensor grad_rows = Tensor::uninitialized({std::ssize(tokens), kDim});
      for (std::int64_t i = 0; i < grad_rows.element_count(); ++i) {
        const float grad = grad_means.data<float>()[static_cast<std::int64_t>(t) * kDim + i % kDim];
        grad_rows.data<float>()[i] = grad / static_cast<float>(tokens.size());
      }
      table_.backward(tokens, grad_rows);
    }
    return {.sum = sum.loss, .nll = sum.nll, .count = sum.targets};
  }

  LossSum loss(const TextBatch& batch) const override {
    const Tensor means = means_of(batch);
    const CrossEntropy sum = cross_entropy({weight_.value, bias_.value}, means, labels_of(batch));
    double right = 0;
    for (std::size_t t = 0; t < batch.texts.size(); ++t) {
      std::vector<double> logits;
      for (std::int64_t c = 0; c < kLabels; ++c) {
        double logit = bias_.value.data<float>()[c];
        for (std::int64_t d = 0; d < kDim; ++d) {
          logit += double{means.data<float>()[static_cast<std::int64_t>(t) * kDim + d]} *
                   weight_.value.data<float>()[c * kDim + d];
        }
        logits.push_back(logit);
      }
      right += std::max_element(logits.begin(), logits.end()) - logits.begin() == batch.texts[t].label ? 1 : 0;
    }
    return {.sum = sum.loss, .nll = sum.nll, .count = sum.targets, .metric = right};
  }

  // All weights as bytes.
  std::string bits() const { return test::weight_bytes(*this); }

 private:
  explicit Classifier(Weights weights)
      : table_({.count = kVocab, .dim = kDim}, weights, "table."),
        weight_{.value = weights.take("out.weight", {kLabels, kDim})},
        bias_{.value = weights.take("out.bias", {kLabels})} {}

  static std::vector<std::int32_t> labels_of(const TextBatch& batch) {
    std::vector<std::int32_t> labels;
    for (const LabelledText& text : batch.texts) labels.push_back(text.label);
    return labels;
  }
  Tensor means_of(const TextBatch& batch) const {
    Tensor means = Tensor::zeros({std::ssize(batch.texts), kDim});
    float* mean = means.data<float>();
    for (const LabelledText& text : batch.texts) {
      const Tensor rows = table_.forward(text.tokens);
      for (std::int64_t i = 0; i < rows.element_count(); ++i) mean[i % kDim] += rows.data<float>()[i];
      for (std::int64_t d = 0; d < kDim; ++d) mean[d] /= static_cast<float>(text.tokens.size());
      mean += kDim;
    }
    return means;
  }

  Embedding table_;
  Parameter weight_, bias_;
};

TrainingConfig classifier_config() {
  return {.seed = 3,
          .steps = 200,
          .batch_tokens = 64,
          .schedule = {.rate = 0.03, .warmup = 10},
          .log_every = 50,
          .validate_every = 25,
          .average = 2};
}

TrainingResult run(Classifier& model, const std::string& folder, const TrainingOptions& options = {},
                   const TrainingConfig& settings = classifier_config()) {
  static const TextExamples training(texts(400, 1)), validation(texts(100, 2));
  return train(model, {.train = training, .valid = validation}, settings, folder, options);
}

TEST(ClassifierTraining, LearnsAndReportsItsAccuracy) {
  const test::TemporaryFolder folder;
  Classifier model;
  Watcher watcher;
  const TrainingResult result = run(model, folder / "", {.observer = &watcher});
  ASSERT_EQ(watcher.validations.size(), 8u);
  EXPECT_EQ(watcher.validations.back().metric->name, "accuracy");
  ASSERT_TRUE(result.best_metric);
  EXPECT_GE(result.best_metric->value, 0.97);
  EXPECT_LT(watcher.validations.front().metric->value, result.best_metric->value);
  const std::string log = test::slurp(folder / "log.jsonl");
  EXPECT_NE(log.find(",\"accuracy\":0."), std::string::npos) << log;
}

TEST(ClassifierTraining, ResumesToTheSameBits) {
  const test::TemporaryFolder folder;
  Classifier whole, first, second, third;
  const TrainingResult expected = run(whole, folder / "whole");
  EXPECT_THROW(run(first, folder / "parts", Stopper(30).options()), Stopped);
  EXPECT_THROW(run(second, folder / "parts", Stopper(130).options()), Stopped);
  const TrainingResult result = run(third, folder / "parts");
  EXPECT_EQ(third.bits(), whole.bits());
  EXPECT_EQ(result.best_step, expected.best_step);
  EXPECT_EQ(result.best_metric->value, expected.best_metric->value);
  EXPECT_EQ(test::slurp(folder / "parts/checkpoints/step-000000200/state.json"),
            test::slurp(folder / "whole/checkpoints/step-000000200/state.json"));
}

TEST(ClassifierTraining, RefusesOtherTexts) {
  const test::TemporaryFolder folder;
  Classifier model;
  run(model, folder / "");
  const TextExamples other(texts(400, 5));
  EXPECT_NE(test::message_of<std::invalid_argument>([&] {
              train(model, {.train = other, .valid = other}, classifier_config(), folder / "");
            }).find("(training data "),
            std::string::npos);
}

// Gives the measures of its list, one after the other.
class Listed : public Classifier {
 public:
  struct Measures {
    double loss, accuracy;
  };
  explicit Listed(std::vector<Measures> list) : list_(std::move(list)) {}
  LossSum loss(const TextBatch& batch) const override {
    const Measures& measures = list_[std::min(next_++, list_.size() - 1)];
    const auto count = static_cast<double>(batch.texts.size());
    return {.sum = measures.loss * count, .count = std::ssize(batch.texts), .metric = measures.accuracy * count};
  }

 private:
  std::vector<Measures> list_;
  mutable std::size_t next_ = 0;
};

TrainingConfig patient() {
  TrainingConfig settings = classifier_config();
  settings.batch_tokens = 10'000;  // one batch
  settings.validate_every = 1;
  settings.patience = 2;
  settings.average = 1;
  return settings;
}

TrainingResult run_listed(const std::vector<Listed::Measures>& list) {
  const test::TemporaryFolder folder;
  Listed model(list);
  return run(model, folder / "", {}, patient());
}

// The accuracy decides against the loss; with the same accuracy, the loss does.
TEST(ClassifierTraining, EndsWhereTheAccuracyDoesNotRise) {
  const TrainingResult higher = run_listed({{1, 0.5}, {2, 0.75}, {0.5, 0.5}, {0.25, 0.5}, {0.1, 0.875}});
  EXPECT_EQ(higher.step, 4);
  EXPECT_EQ(higher.best_step, 2);
  EXPECT_EQ(higher.best_loss, 2);
  EXPECT_EQ(higher.best_metric->value, 0.75);
  EXPECT_EQ(run_listed({{1, 0.5}, {0.5, 0.5}, {0.75, 0.5}, {0.5, 0.5}, {0.25, 0.5}}).best_step, 2);
}

TEST(ClassifierTraining, ResumesWithTheBestAccuracy) {
  const test::TemporaryFolder folder;
  Listed first({{1, 0.875}}), second({{0.5, 0.5}});
  EXPECT_THROW(run(first, folder / "", Stopper(2).options(), patient()), Stopped);  // before its validation
  const TrainingResult result = run(second, folder / "", {}, patient());
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.best_step, 1);
  EXPECT_EQ(result.best_metric->value, 0.875);
}

TEST(ClassifierTraining, AnAccuracyThatIsNoNumberEndsIt) {
  EXPECT_EQ(test::message_of<std::invalid_argument>([] { run_listed({{1, std::nan("")}}); }),
            "train: at step 1 the validation accuracy is not a number; a lower rate or a clip may help");
}

}  // namespace
}  // namespace qkv
