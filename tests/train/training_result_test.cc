// Which weights a training ends with: on a model of one weight that goes n further at update n, so that it is at
// n (n + 1) / 2, and whose loss at each position is given.
#include <gtest/gtest.h>

#include "io/files_for_test.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::Watcher;

class Walker : public TrainableOn<PairBatch> {
 public:
  explicit Walker(std::map<double, double> losses) : losses_(std::move(losses)) {}

  void visit(const ParameterVisitor& visitor) const override { visitor("weight", weight_); }
  void update(const ParameterUpdater& updater) override { updater("weight", weight_); }
  LossSum backward(const PairBatch&, std::uint64_t) override {
    weight_.gradient.data<float>()[0] -= 1;
    return {.sum = 1, .count = 1};
  }
  LossSum loss(const PairBatch&) const override {
    const auto found = losses_.find(position());
    return {.sum = found == losses_.end() ? 9 : found->second, .count = 1};
  }

  double position() const { return weight_.value.data<float>()[0]; }

 private:
  std::map<double, double> losses_;
  Parameter weight_{.value = Tensor::zeros({1})};
};

// Adam without memory goes as far as the rate says, which rises by 1 an update.
TrainingConfig config(std::int64_t steps) {
  return {.steps = steps,
          .batch_tokens = 1,
          .adam = {.beta1 = 0, .beta2 = 0, .epsilon = 1e-12},
          .schedule = {.rate = 64, .warmup = 64},
          .validate_every = 1,
          .checkpoint_minutes = 0};
}

const std::vector<TokenPair> kCopies{{{1}, {1}}, {{2}, {2}}, {{3}, {3}}};

struct Walk {
  TrainingResult result{};
  double position = 0;
  std::vector<double> written{};  // positions of the models that were written
  Watcher watcher{};
};

class TrainingResultTest : public ::testing::Test {
 protected:
  Walk walk(const TrainingConfig& settings, const std::map<double, double>& losses,
            const std::function<void(const TrainingProgress&)>& on_step = {}) {
    Walker model(losses);
    Walk done;
    done.watcher.on_step = on_step;
    const PairExamples examples(kCopies);
    done.result = train(model, {.train = examples, .valid = examples}, settings, folder_ / "",
                        {.observer = &done.watcher, .write_model = [&] { done.written.push_back(model.position()); }});
    done.position = model.position();
    return done;
  }

  void damage(std::int64_t step) const {
    const std::string path = folder_ / ("checkpoints/step-00000000" + std::to_string(step) + "/weights.safetensors");
    std::string bytes = test::slurp(path);
    bytes.back() ^= 1;  // a bit of the exponent
    folder_.put(fs::relative(path, folder_ / ""), bytes);
  }

  const test::TemporaryFolder folder_;
};

TEST_F(TrainingResultTest, IsTheBestCheckpoint) {
  TrainingConfig settings = config(8);
  settings.patience = 2;
  const Walk done = walk(settings, {{1, 5}, {3, 4}, {6, 3}, {10, 3.5}, {15, 3.25}});
  EXPECT_EQ(done.result.step, 5);
  EXPECT_EQ(done.result.best_step, 3);
  EXPECT_EQ(done.result.best_loss, 3);
  EXPECT_EQ(done.position, 6);
  EXPECT_EQ(done.written, (std::vector<double>{1, 3, 6, 6}));  // at each best one, and in the end
}

TEST_F(TrainingResultTest, PatienceBeginsAnewAtABetterOne) {
  TrainingConfig settings = config(12);
  settings.patience = 2;
  const Walk done = walk(settings, {{1, 5}, {3, 6}, {6, 4}, {10, 6}, {15, 3}, {21, 6}, {28, 6}, {36, 1}});
  EXPECT_EQ(done.result.step, 7);
  EXPECT_EQ(done.position, 15);
}

TEST_F(TrainingResultTest, IsTheMeanWhereThatIsBetter) {
  TrainingConfig settings = config(6);
  settings.average = 2;
  std::map<double, double> losses{{1, 5}, {3, 4}, {6, 3}, {10, 2}, {15, 4}, {21, 3}, {8, 1.5}};
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
  TrainingConfig settings = config(6);
  settings.average = 3;
  const Walk done = walk(settings, {{6, 3}, {10, 2}, {8, 1.5}}, [&](const TrainingProgress& progress) {
    if (progress.step == 6) damage(2);
  });
  EXPECT_EQ(done.position, 8);
  EXPECT_EQ(done.result.averaged, 2);
  ASSERT_EQ(done.watcher.notices.size(), 1u);
  EXPECT_NE(done.watcher.notices[0].find("step-000000002"), std::string::npos) << done.watcher.notices[0];
}

TEST_F(TrainingResultTest, ADamagedBestLeavesTheModelAsItWasWritten) {
  const Walk done = walk(config(6), {{6, 3}, {10, 2}}, [&](const TrainingProgress& progress) {
    if (progress.step == 6) damage(4);
  });
  EXPECT_EQ(done.result.best_step, 4);
  ASSERT_FALSE(done.written.empty());
  EXPECT_EQ(done.written.back(), 10);
  ASSERT_EQ(done.watcher.notices.size(), 2u);
  EXPECT_NE(done.watcher.notices[1].find("weights of step 4"), std::string::npos) << done.watcher.notices[1];
}

TEST_F(TrainingResultTest, TheBestStaysOnDiskHoweverLongAgoItWas) {
  const Walk done = walk(config(9), {{3, 1}}, [&](const TrainingProgress& progress) {
    const bool there = fs::exists(folder_ / "checkpoints/step-000000002/manifest.json");
    EXPECT_EQ(there, progress.step > 2);
  });
  EXPECT_EQ(done.position, 3);
}

// An end between two validations is validated, and leaves no trace in a training that goes on.
TEST_F(TrainingResultTest, StepsNeedNoMultiple) {
  TrainingConfig settings = config(6);
  settings.validate_every = 4;
  const std::map<double, double> losses{{10, 3}, {21, 2}, {36, 2.5}};
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

TEST_F(TrainingResultTest, StepsFewerThanAValidationAreValidated) {
  TrainingConfig settings = config(2);
  settings.validate_every = 500;
  const Walk done = walk(settings, {{3, 2}});
  EXPECT_EQ(done.result.best_step, 2);
  EXPECT_EQ(done.result.best_loss, 2);
  EXPECT_EQ(done.position, 3);
  EXPECT_EQ(done.written, std::vector<double>{3});
}

// Three pairs, each a batch of its own.
TEST(TrainingEnd, EpochsEndIt) {
  const auto steps = [](std::int64_t most, std::int64_t epochs, std::int64_t accumulate) {
    const test::TemporaryFolder folder;
    TrainingConfig settings = config(most);
    settings.epochs = epochs;
    settings.accumulate = accumulate;
    Walker model({});
    Watcher watcher;
    const TrainingResult result = train(model, {.train = PairExamples(kCopies), .valid = PairExamples(kCopies)},
                                        settings, folder / "", {.observer = &watcher});
    EXPECT_EQ(watcher.last.steps, result.step);
    return result.step;
  };
  EXPECT_EQ(steps(0, 2, 1), 6);
  EXPECT_EQ(steps(0, 2, 2), 4);  // two and one batch, twice
  EXPECT_EQ(steps(5, 2, 1), 5);
  EXPECT_EQ(steps(7, 2, 1), 6);
}

TEST_F(TrainingResultTest, MoreEpochsGoOn) {
  TrainingConfig settings = config(0);
  settings.epochs = 1;
  const std::map<double, double> losses{{1, 6}, {3, 5}, {6, 4}, {10, 3}, {15, 2}, {21, 1}};
  EXPECT_EQ(walk(settings, losses).position, 6);
  settings.epochs = 2;
  const Walk more = walk(settings, losses);
  EXPECT_EQ(more.position, 21);
  EXPECT_NE(more.watcher.notices.at(0).find("resuming from"), std::string::npos);
}

}  // namespace
}  // namespace qkv
