// Which weights a training ends with: on a model of one weight that goes n further at update n, so that it is at
// n (n + 1) / 2, and whose loss and accuracy at each position are given.
#include <gtest/gtest.h>

#include <cmath>

#include "io/files_for_test.h"
#include "train/validation.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using test::Watcher;
using Positions = std::map<double, double>;

class Walker : public TrainableOn<PairBatch> {
 public:
  explicit Walker(Positions losses, Positions accuracies = {})
      : losses_(std::move(losses)), accuracies_(std::move(accuracies)) {}

  void visit(const ParameterVisitor& visitor) const override { visitor("weight", weight_); }
  void update(const ParameterUpdater& updater) override { updater("weight", weight_); }
  std::string metric_name() const override { return accuracies_.empty() ? "" : "accuracy"; }
  LossSum backward(const PairBatch&, std::uint64_t) override {
    weight_.gradient.data<float>()[0] -= 1;
    return {.sum = 1, .count = 1};
  }
  LossSum loss(const PairBatch&) const override {
    const auto at = [&](const Positions& values, double otherwise) {
      const auto found = values.find(position());
      return found == values.end() ? otherwise : found->second;
    };
    return {.sum = at(losses_, 9), .count = 1, .metric = at(accuracies_, 0)};
  }

  double position() const { return weight_.value.data<float>()[0]; }

 private:
  Positions losses_, accuracies_;
  Parameter weight_{.value = Tensor::zeros({1})};
};

// Adam without memory goes as far as the rate says, which rises by 1 an update.
TrainingConfig walk_config(std::int64_t steps, std::int64_t patience = 0) {
  return {.steps = steps,
          .batch_tokens = 1,
          .adam = {.beta1 = 0, .beta2 = 0, .epsilon = 1e-12},
          .schedule = {.rate = 64, .warmup = 64},
          .validate_every = 1,
          .checkpoint_minutes = 0,
          .patience = patience};
}

struct Walk {
  TrainingResult result{};
  double position = 0;
  std::vector<double> written{};  // positions of the models that were written
  Watcher watcher{};
};

class TrainingResultTest : public ::testing::Test {
 protected:
  // Over three pairs, each a batch of its own.
  Walk walk(const TrainingConfig& settings, const Positions& losses,
            const std::function<void(const TrainingProgress&)>& on_step = {}, const Positions& accuracies = {}) {
    Walker model(losses, accuracies);
    Walk done;
    done.watcher.on_step = on_step;
    const std::vector<TokenPair> copies{{{1}, {1}}, {{2}, {2}}, {{3}, {3}}};
    const PairExamples examples(copies);
    done.result = train(model, {.train = examples, .valid = examples}, settings, folder_ / "",
                        {.observer = &done.watcher, .stop = stop_.get_token(), .write_model = [&] {
                           done.written.push_back(model.position());
                         }});
    done.position = model.position();
    return done;
  }

  // Of the weights of a step, at another one.
  auto damage(std::int64_t step, std::int64_t at) const {
    return [=, this](const TrainingProgress& progress) {
      if (progress.step != at) return;
      const std::string path = "checkpoints/step-00000000" + std::to_string(step) + "/weights.safetensors";
      std::string bytes = test::slurp(folder_ / path);
      bytes.back() ^= 1;  // a bit of the exponent
      folder_.put(path, bytes);
    };
  }

  const test::TemporaryFolder folder_;
  std::stop_source stop_;
};

// Patience begins anew at a better one.
TEST_F(TrainingResultTest, IsTheBestCheckpoint) {
  const Walk done = walk(walk_config(12, 2), {{1, 5}, {3, 6}, {6, 4}, {10, 6}, {15, 3}, {21, 6}, {28, 6}, {36, 1}});
  EXPECT_EQ(done.result.step, 7);
  EXPECT_EQ(done.result.best_step, 5);
  EXPECT_EQ(done.result.best_loss, 3);
  EXPECT_EQ(done.position, 15);
  EXPECT_EQ(done.written, (std::vector<double>{1, 6, 15, 15}));  // at each best one, and in the end
}

TEST_F(TrainingResultTest, IsTheMeanWhereThatIsBetter) {
  TrainingConfig settings = walk_config(6);
  settings.average = 2;
  Positions losses{{1, 5}, {3, 4}, {6, 3}, {10, 2}, {15, 4}, {21, 3}, {8, 1.5}};
  const Walk done = walk(settings, losses);
  EXPECT_EQ(done.position, 8);  // of 6 and 10: the mean ends at the best, not at the last
  EXPECT_TRUE(done.result.is_mean);
  EXPECT_EQ(done.result.averaged, 2);
  EXPECT_EQ(done.result.mean_loss, 1.5);
  EXPECT_EQ(done.result.best_loss, 2);
  EXPECT_EQ(done.result.best_step, 4);
  EXPECT_EQ(done.written.back(), 8);

  losses[8] = 2.5;
  const Walk again = walk(settings, losses);  // of the same checkpoints
  EXPECT_EQ(again.position, 10);
  EXPECT_FALSE(again.result.is_mean);
  EXPECT_EQ(again.result.mean_loss, 2.5);
  EXPECT_EQ(again.written, std::vector<double>{10});
}

TEST_F(TrainingResultTest, DamagedCheckpointsAreLeftOutOfTheMean) {
  TrainingConfig settings = walk_config(6);
  settings.average = 3;
  const Walk done = walk(settings, {{6, 3}, {10, 2}, {8, 1.5}}, damage(2, 6));
  EXPECT_EQ(done.position, 8);
  EXPECT_EQ(done.result.averaged, 2);
  ASSERT_EQ(done.watcher.notices.size(), 1u);
  test::expect_contains(done.watcher.notices[0], "step-000000002");
}

TEST_F(TrainingResultTest, ADamagedBestLeavesTheModelAsItWasWritten) {
  const Walk done = walk(walk_config(6), {{6, 3}, {10, 2}}, damage(4, 6));
  EXPECT_EQ(done.result.best_step, 4);
  ASSERT_FALSE(done.written.empty());
  EXPECT_EQ(done.written.back(), 10);
  ASSERT_EQ(done.watcher.notices.size(), 2u);
  test::expect_contains(done.watcher.notices[1], "weights of step 4");
}

// An end between two validations is validated, and leaves no trace in a training that goes on.
TEST_F(TrainingResultTest, StepsNeedNoMultiple) {
  TrainingConfig settings = walk_config(6);
  settings.validate_every = 4;
  const Positions losses{{10, 3}, {21, 2}, {36, 2.5}};
  const Walk end = walk(settings, losses);
  EXPECT_EQ(end.position, 21);
  EXPECT_EQ(end.result.best_step, 6);
  ASSERT_EQ(end.watcher.validations.size(), 2u);
  EXPECT_EQ(end.watcher.validations[1].step, 6);
  settings.steps = 8;
  const Walk longer = walk(settings, losses);
  EXPECT_EQ(longer.position, 36);  // as without the end at 6: 2.5 is below 3
  EXPECT_EQ(longer.result.best_step, 8);
}

// Of three batches each; a call with more of them goes on.
TEST_F(TrainingResultTest, EpochsEndIt) {
  TrainingConfig settings = walk_config(0);
  const auto expect_end = [&](std::int64_t steps, std::int64_t epochs, std::int64_t end) {
    settings.steps = steps;
    settings.epochs = epochs;
    const Walk done = walk(settings, {{6, 5}, {21, 4}});
    EXPECT_EQ(done.result.step, end);
    EXPECT_TRUE(done.watcher.last.step == 0 || done.watcher.last.steps == end);
    EXPECT_EQ(done.position, end < 6 ? 6 : 21);
  };
  expect_end(0, 1, 3);
  expect_end(5, 2, 5);
  expect_end(7, 2, 6);
  expect_end(0, 2, 6);
}

TEST_F(TrainingResultTest, AnEpochMayEndWithFewerBatches) {
  TrainingConfig settings = walk_config(0);
  settings.epochs = settings.accumulate = 2;
  EXPECT_EQ(walk(settings, {}).result.step, 4);  // of two and one batch, twice
}

// The accuracy decides against the loss; with the same accuracy, the loss does.
TEST(Measures, AreCompared) {
  using training::is_better;
  EXPECT_TRUE(is_better({.loss = 2, .metric = 0.75}, {.loss = 1, .metric = 0.5}));
  EXPECT_FALSE(is_better({.loss = 1, .metric = 0.5}, {.loss = 2, .metric = 0.75}));
  EXPECT_TRUE(is_better({.loss = 1, .metric = 0.5}, {.loss = 2, .metric = 0.5}));
  EXPECT_FALSE(is_better({.loss = 1, .metric = 0.5}, {.loss = 1, .metric = 0.5}));
  EXPECT_TRUE(is_better({.loss = 1}, {.loss = 2}));
}

TEST_F(TrainingResultTest, ResumesWithTheBestAccuracy) {
  const auto stop = [&](const TrainingProgress& progress) {
    if (progress.step == 2) stop_.request_stop();  // before its validation
  };
  const Positions losses{{1, 1}, {3, 0.5}, {6, 0.5}}, accuracies{{1, 0.875}, {3, 0.5}, {6, 0.5}};
  EXPECT_THROW(walk(walk_config(9, 2), losses, stop, accuracies), Stopped);
  stop_ = {};
  const TrainingResult result = walk(walk_config(9, 2), losses, {}, accuracies).result;
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.best_step, 1);
  EXPECT_EQ(result.best_loss, 1);
  EXPECT_EQ(result.best_metric->name, "accuracy");
  EXPECT_EQ(result.best_metric->value, 0.875);
}

TEST_F(TrainingResultTest, AnAccuracyThatIsNoNumberEndsIt) {
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { walk(walk_config(9), {}, {}, {{1, std::nan("")}}); }),
            "train: at step 1 the validation accuracy is not a number; a lower rate or a clip may help");
}

}  // namespace
}  // namespace qkv
