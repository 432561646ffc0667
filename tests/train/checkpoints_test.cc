// Checkpoints: saved, restored, damaged and removed; which changes of a training allow it to resume from one; and which
// weights it ends with.
#include "train/checkpoints.h"

#include "io/files_for_test.h"
#include "train/config/run_identity.h"
#include "train/validation.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::TinyModel;
using training::Checkpoints;
using training::LoopState;
using training::RunIdentity;
using Positions = std::map<double, double>;

void fill(TinyModel& model, float value) {
  model.update([&](const std::string&, Parameter& own) {
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) own.value.data<float>()[i] = value;
  });
}

// One step, so that there are moments.
void move(TinyModel& model, Adam& adam) {
  model.update([](const std::string&, Parameter& own) {
    own.want_gradient();
    own.gradient.data<float>()[0] = 1;
  });
  adam.begin_step(0.1);
  model.update([&](const std::string& name, Parameter& own) { adam.step(name, own); });
}

class CheckpointsTest : public ::testing::Test {
 protected:
  // Those that there are.
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "c")) {
      const std::string name = entry.path().filename();
      if (name == "lock") continue;
      EXPECT_TRUE(name.size() == 14 && name.starts_with("step-")) << name;
      found.push_back(std::stoll(name.substr(5)));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  void save(const LoopState& state) const { checkpoints_.save(model_, adam_, state, identity_); }
  std::string path(std::int64_t step, const std::string& file) const {
    return folder_ / ("c/step-0000000" + std::to_string(step) + "/" + file);
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> notices_;
  const Checkpoints checkpoints_{folder_ / "c", 10, 2, [this](const std::string& text) { notices_.push_back(text); }};
  const RunIdentity identity_{
      .fixed = {{"a", "1"}, {"b c", "x"}}, .settings = {{"d", "0.1"}}, .steps = 90, .patience = 8};
  TinyModel model_;
  Adam adam_{{}};
};

TEST_F(CheckpointsTest, BringBackEverything) {
  EXPECT_FALSE(checkpoints_.newest());
  EXPECT_FALSE(Checkpoints::exist(folder_ / "c"));
  EXPECT_FALSE(Checkpoints::exist(folder_ / "nowhere"));
  move(model_, adam_);
  save({.step = 10,
        .epoch = 2,
        .batch = 7,
        .since_log = {.sum = 0.1, .nll = 0.3, .count = 3},
        .best_loss = 1.0 / 3,
        .best_metric = 0.7,
        .best_step = 5,
        .waits = 4,
        .unvalidated = true});
  EXPECT_TRUE(Checkpoints::exist(folder_ / "c"));
  const auto restored = checkpoints_.newest();
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->path, folder_ / "c/step-000000010");
  const LoopState& state = restored->state;
  EXPECT_EQ((std::vector<std::int64_t>{state.step, state.epoch, state.batch, state.best_step, state.waits}),
            (std::vector<std::int64_t>{10, 2, 7, 5, 4}));
  EXPECT_EQ((std::vector<double>{state.since_log.sum, state.since_log.nll, state.best_loss, state.best_metric.value()}),
            (std::vector<double>{0.1, 0.3, 1.0 / 3, 0.7}));
  EXPECT_EQ(state.since_log.count, 3);
  EXPECT_TRUE(state.unvalidated);
  EXPECT_EQ(restored->identity.fixed, identity_.fixed);
  EXPECT_EQ(restored->identity.settings, identity_.settings);
  EXPECT_EQ(restored->identity.steps, 90);
  EXPECT_EQ(restored->identity.patience, 8);
  TinyModel other;
  Adam again({});
  fill(other, 9);
  move(other, again);
  checkpoints_.restore(*restored, other, again);
  EXPECT_EQ(other.bits(), model_.bits());
  EXPECT_EQ(again.steps(), 10);
  test::expect_equal(again.moments().at("table").first, adam_.moments().at("table").first);
  test::expect_equal(again.moments().at("bias").second, adam_.moments().at("bias").second);
}

TEST_F(CheckpointsTest, KeepThoseThatCountAndTheOneBefore) {
  for (const auto& [step, kept] : std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>>{
           {10, {10}}, {20, {10, 20}}, {30, {20, 30}}, {33, {20, 30, 33}}, {40, {30, 33, 40}}, {50, {40, 50}}}) {
    save({.step = step});
    EXPECT_EQ(steps(), kept);
  }
}

TEST_F(CheckpointsTest, KeepTheBestAndThoseThatEndThere) {
  for (const std::int64_t step : {10, 20, 30, 40, 50, 60, 64, 66}) {
    save({.step = step, .best_step = std::min<std::int64_t>(step - step % 10, 30)});
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{20, 30, 50, 60, 64, 66}));
}

TEST_F(CheckpointsTest, DamagedOnesGiveWayToTheOneBefore) {
  move(model_, adam_);
  for (const std::int64_t step : {10, 20}) {
    fill(model_, static_cast<float>(step));
    save({.step = step});
  }
  fs::resize_file(path(20, "weights.safetensors"), fs::file_size(path(20, "weights.safetensors")) - 1);
  fs::create_directory(folder_ / "c/step-000000030.unfinished");
  fs::create_directory(folder_ / "c/step-000000040");  // half removed: no manifest
  const auto found = checkpoints_.newest();
  ASSERT_TRUE(found);
  checkpoints_.restore(*found, model_, adam_);
  checkpoints_.remove_after(found->state.step);
  TinyModel expected;
  fill(expected, 10);
  EXPECT_EQ(model_.bits(), expected.bits());
  EXPECT_EQ(steps(), std::vector<std::int64_t>{10});
  ASSERT_EQ(notices_.size(), 3u);
  test::expect_contains(notices_[1], "weights.safetensors");
}

TEST_F(CheckpointsTest, WithoutAWholeOneNothingIsRemoved) {
  save({.step = 10});
  fs::remove(path(10, "manifest.json"));
  test::expect_refusal<FormatError>([&] { checkpoints_.newest(); }, "all checkpoints are damaged");
  EXPECT_EQ(steps(), std::vector<std::int64_t>{10});
}

TEST_F(CheckpointsTest, AverageTakesThoseThatCountAndAreWhole) {
  for (const std::int64_t step : {10, 20, 25, 30}) {
    fill(model_, static_cast<float>(step));
    save({.step = step, .best_step = 20});
  }
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(checkpoints_.ending_at(30), (Steps{20, 30}));  // 25 was an interruption
  EXPECT_EQ(checkpoints_.ending_at(20), (Steps{10, 20}));
  EXPECT_EQ(checkpoints_.ending_at(25), (Steps{20, 25}));  // an end
  TinyModel expected;
  for (const auto& [of, mean] : {std::pair<Steps, float>({20, 30}, 25), {{30}, 30}}) {
    checkpoints_.average(of, model_);
    fill(expected, mean);
    EXPECT_EQ(model_.bits(), expected.bits());
  }
  std::string bytes = test::slurp(path(20, "weights.safetensors"));
  bytes.back() ^= 1;
  folder_.put("c/step-000000020/weights.safetensors", bytes);
  EXPECT_EQ(checkpoints_.ending_at(30), Steps{30});
  ASSERT_FALSE(notices_.empty());
  test::expect_contains(notices_.back(), "step-000000020");
}

const std::vector<TokenPair> kPairs{{{1, 2}, {3}}, {{4}, {5, 6}}}, kOthers{{{1, 2}, {3}}};

RunIdentity identity(const TrainingConfig& config = {}, const std::vector<TokenPair>& train = kPairs,
                     const std::vector<TokenPair>& valid = kPairs) {
  RunIdentity found = training::identity_of(config, PairExamples(train), PairExamples(valid),
                                            {.identity = {{"heads", "2"}}, .settings = {{"dropout", "0.1"}}});
  found.steps = 100;
  return found;
}

// Of a training that has come to step 50.
std::string changed(const RunIdentity& before, const RunIdentity& now) {
  return to_text(changes_of(before, now, 50, "a/checkpoint"));
}

TEST(RunIdentity, SettingsMayChange) {
  EXPECT_EQ(changed(identity(), identity({.log_every = 3, .checkpoint_minutes = 0})), "");
  EXPECT_EQ(changed(identity(), identity({.schedule = {.decay = Decay::cosine}, .clip = 0.5, .average = 4})),
            "average 1 -> 4, clip 0 -> 0.5, schedule inverse_sqrt -> cosine");
}

TEST(RunIdentity, StepsAndPatience) {
  const auto expect = [](const TrainingConfig& before, const TrainingConfig& now, std::int64_t steps,
                         const std::string& change) {
    RunIdentity then = identity(now);
    then.steps = steps;
    EXPECT_EQ(changed(identity(before), then), change);
  };
  const TrainingConfig root, cosine{.schedule = {.decay = Decay::cosine}}, one{.patience = 1}, two{.patience = 2};
  expect(root, root, 200, "");
  expect(root, root, 50, "");  // which are done
  expect(root, root, 49, "steps 100 -> 49");
  expect(cosine, cosine, 100, "");
  expect(cosine, cosine, 200, "steps 100 -> 200");  // the rate depends on them
  expect(one, two, 100, "");
  expect(two, root, 100, "");  // any
  expect(two, one, 100, "patience 2 -> 1");
  expect(root, one, 100, "patience 0 -> 1");
}

TEST(RunIdentity, TheRestMayNot) {
  const auto expect_refusal = [](const RunIdentity& now, const std::string& change) {
    test::expect_refusal<std::invalid_argument>([&] { changed(identity(), now); },
                                                "a/checkpoint: belongs to another training (" + change);
  };
  expect_refusal(identity({.seed = 2}), "seed 1 -> 2); train into another folder");
  expect_refusal(identity({}, kOthers), "training data ");
  expect_refusal(identity({}, kPairs, kOthers), "validation data ");
  RunIdentity headless = identity();
  headless.fixed.erase("heads");
  expect_refusal(headless, "heads 2 -> nothing)");
}

// A model of one weight that goes n further at update n, so that it is at n (n + 1) / 2, and whose loss and accuracy at
// each position are given.
class Walker : public TrainableOn<PairBatch> {
 public:
  explicit Walker(Positions losses, Positions accuracies = {})
      : losses_(std::move(losses)), accuracies_(std::move(accuracies)) {}

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
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override {
    walk(weight_, scope + "weight");
  }

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
  test::Watcher watcher{};
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
  ASSERT_EQ(done.watcher.notices.size(), 2u);
  test::expect_contains(done.watcher.notices[1], "step-000000002");
}

TEST_F(TrainingResultTest, ADamagedBestLeavesTheModelAsItWasWritten) {
  const Walk done = walk(walk_config(6), {{6, 3}, {10, 2}}, damage(4, 6));
  EXPECT_EQ(done.result.best_step, 4);
  ASSERT_FALSE(done.written.empty());
  EXPECT_EQ(done.written.back(), 10);
  ASSERT_EQ(done.watcher.notices.size(), 3u);
  test::expect_contains(done.watcher.notices[2], "weights, of step 4,");
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
    EXPECT_EQ(done.watcher.last.epoch, (done.watcher.last.step + 2) / 3);  // counted from 1; 0 where nothing was said
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
  const training::Measures one{.loss = 1, .metric = 0.5}, two{.loss = 2, .metric = 0.5},
      right{.loss = 2, .metric = 0.75};
  EXPECT_TRUE(is_better(right, one) && is_better(one, two) && is_better({.loss = 1}, {.loss = 2}));
  EXPECT_FALSE(is_better(one, right) || is_better(two, one) || is_better(one, one));
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
