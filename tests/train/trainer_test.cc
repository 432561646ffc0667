// The loop on a model of a hundred weights: it learns, it stops when it should, and nothing that interrupts it shows in
// what comes out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <sstream>

#include "io/files_for_test.h"
#include "qkv/threads.h"
#include "stop_for_test.h"
#include "train/tiny_model.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::Stopper;
using test::TinyModel;
using test::Watcher;

const std::vector<TokenPair>& training_pairs() {
  static const std::vector<TokenPair> pairs = test::tiny_pairs(200, 1);
  return pairs;
}
const std::vector<TokenPair>& validation_pairs() {
  static const std::vector<TokenPair> pairs = test::tiny_pairs(30, 2);
  return pairs;
}

TrainingConfig config() {
  return {.seed = 7,
          .steps = 120,
          .batch_tokens = 60,
          .accumulate = 2,
          .schedule = {.rate = 0.2, .warmup = 10},
          .clip = 1,
          .log_every = 7,
          .validate_every = 20,
          .average = 2};
}

TrainingResult run(TinyModel& model, const std::string& folder, const TrainingOptions& options = {},
                   const TrainingConfig& settings = config()) {
  const PairExamples training(training_pairs()), validation(validation_pairs());
  return train(model, {.train = training, .valid = validation}, settings, folder, options);
}

// The weights that an undisturbed training ends with.
const std::string& undisturbed() {
  static const std::string bits = [] {
    const test::TemporaryFolder folder;
    TinyModel model;
    run(model, folder / "");
    return model.bits();
  }();
  return bits;
}

// Those lines of a log.
std::vector<std::string> validations_in(const std::string& log) {
  std::vector<std::string> lines;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) {
    if (line.find("valid_loss") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

TEST(Trainer, Learns) {
  const test::TemporaryFolder folder;
  TinyModel model;
  Watcher watcher;
  const TrainingResult result = run(model, folder / "", {.observer = &watcher});
  EXPECT_EQ(result.step, 120);
  EXPECT_EQ(watcher.last.step, 120);
  ASSERT_EQ(watcher.validations.size(), 6u);
  EXPECT_LT(watcher.validations.back().loss, 0.2);
  EXPECT_LT(watcher.validations.back().loss, watcher.validations.front().loss / 2);
  EXPECT_DOUBLE_EQ(watcher.validations.back().perplexity, std::exp(watcher.validations.back().loss));
  EXPECT_TRUE(test::slurp(folder / "loss.svg").ends_with("</svg>\n"));
  const std::string log = test::slurp(folder / "log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 120 / 7 + 6);
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    const test::TemporaryFolder folder;
    TinyModel model;
    run(model, folder / "");
    EXPECT_EQ(model.bits(), undisturbed()) << threads;
  }
  set_threads(0);
}

TEST(Trainer, AnotherSeedGivesOtherWeights) {
  const test::TemporaryFolder folder;
  TrainingConfig other = config();
  other.seed = 8;
  TinyModel model;
  run(model, folder / "", {}, other);
  EXPECT_NE(model.bits(), undisturbed());
}

TEST(Trainer, FinishedTrainingsComeBackAsTheyWere) {
  const test::TemporaryFolder folder;
  TinyModel model, again;
  run(model, folder / "");
  const std::string log = test::slurp(folder / "log.jsonl");
  EXPECT_EQ(run(again, folder / "").step, 120);
  EXPECT_EQ(again.bits(), undisturbed());
  EXPECT_EQ(test::slurp(folder / "log.jsonl"), log);
}

TEST(Trainer, StopsAfterACheckpointAndGoesOn) {
  const test::TemporaryFolder folder;
  for (const std::int64_t at : {3, 20, 41, 77}) {
    Stopper stopper(at);
    TinyModel model;
    EXPECT_THROW(run(model, folder / "", stopper.options()), Stopped);
    EXPECT_EQ(stopper.last.step, at);
  }
  TinyModel model;
  run(model, folder / "");
  EXPECT_EQ(model.bits(), undisturbed());
}

// Wherever it is asked: between batches, in a validation, in the middle of an update's gradients, which come again.
TEST(Trainer, StopsAtAnyQuestion) {
  const test::TemporaryFolder folder;
  TinyModel whole;
  set_threads(1);
  const std::int64_t questions = test::questions_of([&] { run(whole, folder / "whole"); });
  EXPECT_GE(questions, 240);  // of 120 updates in two batches
  const std::string log = test::slurp(folder / "whole/log.jsonl");
  TinyModel model;  // goes on as it was left, with gradients of half an update
  for (int part = 0; part < 11; ++part) {
    const test::StopAt stop(questions / 13 + part);
    EXPECT_THROW(run(model, folder / "parts", {.stop = stop.token()}), Stopped) << part;
  }
  run(model, folder / "parts");
  set_threads(0);
  EXPECT_EQ(model.bits(), undisturbed());
  EXPECT_EQ(validations_in(test::slurp(folder / "parts/log.jsonl")), validations_in(log));
}

// Runs a training in a process of its own, which may be killed; the exit status as waitpid gives it.
class Child {
 public:
  explicit Child(const std::function<void()>& work) : id_(fork()) {
    if (id_ != 0) return;
    try {
      work();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  void kill() const { ::kill(id_, SIGKILL); }
  int wait() const {
    int status = 0;
    waitpid(id_, &status, 0);
    return status;
  }

 private:
  pid_t id_;
};

// Kills a training `times` times, each a little later than the last, then lets it end.
void expect_to_survive(int times) {
  const std::string expected = undisturbed();
  const test::TemporaryFolder folder;
  Random random(static_cast<std::uint64_t>(times));
  for (int i = 0; i < times; ++i) {
    TinyModel model;
    const Child child([&] { run(model, folder / ""); });
    usleep(static_cast<useconds_t>(random.below(4000) + 500));
    child.kill();
    child.wait();
  }
  TinyModel model;
  run(model, folder / "");
  EXPECT_EQ(model.bits(), expected);
}

TEST(Trainer, SurvivesBeingKilled) { expect_to_survive(5); }
TEST(TrainerSlow, SurvivesBeingKilledFiftyTimes) { expect_to_survive(50); }

// At moments that no luck decides: in the middle of each of the updates around a checkpoint.
TEST(Trainer, SurvivesBeingKilledAtAnyUpdate) {
  const std::string expected = undisturbed();
  const test::TemporaryFolder folder;
  for (std::int64_t at = 17; at < 24; ++at) {
    const Child child([&] {
      TinyModel model;
      Watcher watcher;
      watcher.on_step = [&](const TrainingProgress& progress) {
        if (progress.step == at) ::kill(getpid(), SIGKILL);
      };
      run(model, folder / "", {.observer = &watcher});
    });
    EXPECT_TRUE(WIFSIGNALED(child.wait())) << at;
  }
  TinyModel model;
  Watcher watcher;
  run(model, folder / "", {.observer = &watcher});
  ASSERT_EQ(watcher.notices.size(), 1u);
  EXPECT_NE(watcher.notices[0].find("step-000000020"), std::string::npos) << watcher.notices[0];
  EXPECT_EQ(model.bits(), expected);
}

TEST(Trainer, AFullDiskLosesNothing) {
  const std::string expected = undisturbed();
  const test::TemporaryFolder folder;
  TinyModel model;
  Watcher watcher;
  std::optional<test::FileSizeLimit> limit;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step == 50) limit.emplace(1000);  // less than the moments of a checkpoint
  };
  TrainingConfig quiet = config();
  quiet.log_every = 1000;  // the log stays within the limit
  EXPECT_THROW(run(model, folder / "", {.observer = &watcher}, quiet), IoError);
  limit.reset();
  EXPECT_EQ(watcher.last.step, 60);
  EXPECT_TRUE(fs::exists(folder / "checkpoints/step-000000040"));
  EXPECT_FALSE(fs::exists(folder / "checkpoints/step-000000060.unfinished"));
  TinyModel again;
  run(again, folder / "");
  EXPECT_EQ(again.bits(), expected);
}

// A disk that is really full: a file system of a few pages, where this process may mount one.
TEST(Trainer, ASmallDiskLosesNothing) {
  const std::string expected = undisturbed();
  const test::TemporaryFolder folder;
  const std::string disk = folder / "disk";
  fs::create_directory(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=160k") != 0) GTEST_SKIP() << "no right to mount";
  const std::string ballast = disk + "/ballast";
  int failures = 0;
  for (int size = 130; size >= 0; size -= 26) {  // KiB that something else takes
    {
      std::ofstream file(ballast, std::ios::binary);
      file << std::string(static_cast<std::size_t>(size) * 1024, 'x');
    }
    TinyModel model;
    try {
      run(model, disk);
      EXPECT_EQ(model.bits(), expected);
    } catch (const IoError&) {
      ++failures;
    }
  }
  EXPECT_GT(failures, 0);
  TinyModel model;
  fs::remove(ballast);
  run(model, disk);
  EXPECT_EQ(model.bits(), expected);
  ::umount(disk.c_str());
}

// Of no bits: of a clock that has run out at every update.
TEST(Trainer, CheckpointsOfTheClockDoNotShow) {
  const test::TemporaryFolder folder;
  TrainingConfig settings = config();
  settings.checkpoint_minutes = 1e-12;
  TinyModel model;
  Watcher watcher;
  std::stop_source source;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step < 44) return;
    EXPECT_TRUE(fs::exists(folder / "checkpoints/step-000000043/manifest.json"));
    source.request_stop();
  };
  EXPECT_THROW(run(model, folder / "", {.observer = &watcher, .stop = source.get_token()}, settings), Stopped);
  TinyModel again;
  run(again, folder / "");
  EXPECT_EQ(again.bits(), undisturbed());
}

// Keeps the seeds that dropout is drawn from.
class SeedKeeper : public TinyModel {
 public:
  LossSum backward(const PairBatch& batch, std::uint64_t dropout_seed) override {
    seeds.push_back(dropout_seed);
    return TinyModel::backward(batch, dropout_seed);
  }
  std::vector<std::uint64_t> seeds{};
};

TEST(Trainer, DropoutIsAnotherInEachBatch) {
  const test::TemporaryFolder folder;
  SeedKeeper whole;
  run(whole, folder / "whole");
  const std::set<std::uint64_t> different(whole.seeds.begin(), whole.seeds.end());
  EXPECT_GE(whole.seeds.size(), 120u);
  EXPECT_EQ(different.size(), whole.seeds.size());

  SeedKeeper first, second;
  EXPECT_THROW(run(first, folder / "parts", Stopper(33).options()), Stopped);
  run(second, folder / "parts");
  first.seeds.insert(first.seeds.end(), second.seeds.begin(), second.seeds.end());
  EXPECT_EQ(first.seeds, whole.seeds);
}

TEST(Trainer, ClipsByTheNormOfAll) {
  // Adam's first step does not depend on the size of the gradient, its second moments do.
  const test::TemporaryFolder folder;
  TrainingConfig settings = config();
  settings.adam = {.beta1 = 0, .beta2 = 0, .epsilon = 1};  // a step is rate * g / (|g| + 1)
  settings.steps = settings.validate_every = 1;
  settings.schedule = {.rate = 1, .warmup = 0};
  settings.clip = 1e-3;
  TinyModel model;
  const std::string before = model.bits();
  run(model, folder / "", {}, settings);
  const std::string after = model.bits();
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); i += sizeof(float)) {
    float a, b;
    std::memcpy(&a, &before[i], sizeof a);
    std::memcpy(&b, &after[i], sizeof b);
    squares += double{b - a} * double{b - a};
  }
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 2e-6);  // the 1 / (|g| + 1) takes up to a thousandth off
}

TEST(Trainer, RefusesWhatCannotBeMeant) {
  const test::TemporaryFolder folder;
  TinyModel model;
  const auto expect = [&](const std::function<void(TrainingConfig&)>& change, const std::string& message) {
    TrainingConfig settings = config();
    change(settings);
    EXPECT_EQ(test::message_of<std::invalid_argument>([&] { run(model, folder / "", {}, settings); }), message);
  };
  expect([](TrainingConfig& c) { c.steps = 0; }, "train: steps is 0; it must be 1 or more");
  expect([](TrainingConfig& c) { c.epochs = -1; }, "train: epochs is -1; it must be 0 or more");
  expect([](TrainingConfig& c) { c.checkpoint_minutes = -1; }, "train: checkpoint_minutes is -1; it must be 0 or more");
  expect([](TrainingConfig& c) { c.accumulate = 0; }, "train: accumulate is 0; it must be 1 or more");
  expect([](TrainingConfig& c) { c.schedule.rate = 0; }, "train: rate is 0; it must be above 0");
  expect([](TrainingConfig& c) { c.clip = -1; }, "train: clip is -1; it must be 0 or more");
  expect([](TrainingConfig& c) { c.patience = -1; }, "train: patience is -1; it must be 0 or more");
  const PairExamples none({}), validation(validation_pairs());
  const auto refusal = [&](const PairExamples& training, const PairExamples& valid) {
    return test::message_of<std::invalid_argument>(
        [&] { train(model, {.train = training, .valid = valid}, config(), folder / ""); });
  };
  EXPECT_EQ(refusal(none, validation), "train: the train data has no pairs");
  EXPECT_EQ(refusal(validation, none), "train: the valid data has no pairs");
  EXPECT_TRUE(folder.names().empty());
}

// A call that goes on with a training that another config began.
enum class GoesOn { silently, with_change, never };

TrainingConfig short_config() {
  TrainingConfig settings = config();
  settings.steps = 60;
  return settings;
}

void expect_going_on(GoesOn how, const std::string& name, const std::function<void(TrainingConfig&)>& change,
                     const TrainingConfig& settings = short_config()) {
  SCOPED_TRACE(name);
  const test::TemporaryFolder folder;
  TinyModel first, second, third;
  EXPECT_THROW(run(first, folder / "a", Stopper(44).options(), settings), Stopped);
  TrainingConfig other = settings;
  change(other);
  if (how == GoesOn::silently) {
    run(second, folder / "a", {}, other);
    run(third, folder / "b", {}, other);
    EXPECT_EQ(second.bits(), third.bits());
    return;
  }
  const std::string refusal = test::message_of<std::invalid_argument>([&] { run(second, folder / "a", {}, other); });
  EXPECT_NE(refusal.find("(" + name + " "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("step-000000044"), std::string::npos) << refusal;
  if (how == GoesOn::never) {
    EXPECT_THROW(run(second, folder / "a", {.change = true}, other), std::invalid_argument);
    return;
  }
  Watcher changed;
  run(second, folder / "a", {.observer = &changed, .change = true}, other);
  EXPECT_NE(changed.notices.at(1).find("changed from step 44 on: " + name), std::string::npos) << changed.notices[1];
  const std::string log = test::slurp(folder / "a/log.jsonl");
  EXPECT_NE(log.find("{\"step\":44,\"changed\":{\"" + name + "\":{\"before\":"), std::string::npos) << log;
  run(third, folder / "a", {}, other);  // the change is made
  EXPECT_EQ(second.bits(), third.bits());
  EXPECT_EQ(test::slurp(folder / "a/log.jsonl"), log);
}

TEST(Trainer, GoesOnWithWhatWeightsDoNotDependOn) {
  const auto expect = [](const std::string& name, const std::function<void(TrainingConfig&)>& change) {
    expect_going_on(GoesOn::silently, name, change);
  };
  expect("log_every", [](TrainingConfig& c) { c.log_every = 3; });
  expect("checkpoint_minutes", [](TrainingConfig& c) { c.checkpoint_minutes = 0; });
  expect("steps", [](TrainingConfig& c) { c.steps = 90; });
  expect("steps", [](TrainingConfig& c) { c.steps = 50; });
  expect("epochs", [](TrainingConfig& c) { c.epochs = 8; });
}

TEST(Trainer, GoesOnWithOtherSettingsOnRequest) {
  const auto expect = [](const std::string& name, const std::function<void(TrainingConfig&)>& change) {
    expect_going_on(GoesOn::with_change, name, change);
  };
  expect("rate", [](TrainingConfig& c) { c.schedule.rate = 0.1; });
  expect("schedule", [](TrainingConfig& c) { c.schedule.decay = Decay::cosine; });
  expect("warmup", [](TrainingConfig& c) { c.schedule.warmup = 20; });
  expect("clip", [](TrainingConfig& c) { c.clip = 0.5; });
  expect("batch_tokens", [](TrainingConfig& c) { c.batch_tokens = 90; });
  expect("accumulate", [](TrainingConfig& c) { c.accumulate = 3; });
  expect("beta1", [](TrainingConfig& c) { c.adam.beta1 = 0.8; });
  expect("beta2", [](TrainingConfig& c) { c.adam.beta2 = 0.8; });
  expect("epsilon", [](TrainingConfig& c) { c.adam.epsilon = 0.1; });
  expect("weight_decay", [](TrainingConfig& c) { c.adam.weight_decay = 0.1; });
  expect("optimizer", [](TrainingConfig& c) {
    c.adam.decay = c.adam.decay == WeightDecay::decoupled ? WeightDecay::in_gradient : WeightDecay::decoupled;
  });
  expect("validate_every", [](TrainingConfig& c) { c.validate_every = 30; });
  expect("average", [](TrainingConfig& c) { c.average = 3; });
  expect("patience", [](TrainingConfig& c) { c.patience = 40; });
  TrainingConfig cosine = short_config();
  cosine.schedule.decay = Decay::cosine;
  expect_going_on(GoesOn::with_change, "steps", [](TrainingConfig& c) { c.steps = 70; }, cosine);
}

TEST(Trainer, NeverGoesOnWithAnotherSeed) {
  expect_going_on(GoesOn::never, "seed", [](TrainingConfig& c) { c.seed = 8; });
}

TEST(Trainer, RefusesTheFolderOfAnotherTraining) {
  const test::TemporaryFolder folder;
  TinyModel model;
  run(model, folder / "", {.identity = {{"heads", "2"}}});
  const std::string log = test::slurp(folder / "log.jsonl");
  EXPECT_NE(test::message_of<std::invalid_argument>([&] {
              run(model, folder / "", {.identity = {{"heads", "4"}}, .change = true});
            }).find("(heads 2 -> 4)"),
            std::string::npos);
  const PairExamples validation(validation_pairs());
  EXPECT_THROW(train(model, {.train = validation, .valid = validation}, config(), folder / "",
                     {.identity = {{"heads", "2"}}, .change = true}),
               std::invalid_argument);
  EXPECT_EQ(test::slurp(folder / "log.jsonl"), log);
  run(model, folder / "", {.identity = {{"heads", "2"}}});
  EXPECT_EQ(model.bits(), undisturbed());
}

TEST(Trainer, OneProcessAtATime) {
  const test::TemporaryFolder folder;
  TinyModel model;
  Watcher watcher;
  watcher.on_step = [&](const TrainingProgress& progress) {
    if (progress.step != 1) return;
    TinyModel second;
    EXPECT_NE(test::message_of<IoError>([&] { run(second, folder / ""); }).find("another process"), std::string::npos);
  };
  run(model, folder / "", {.observer = &watcher});
  EXPECT_EQ(model.bits(), undisturbed());
}

TEST(Trainer, ALossThatIsNoNumberEndsIt) {
  const test::TemporaryFolder folder;
  TinyModel model;
  model.update([](const std::string& name, Parameter& own) {
    if (name == "bias") own.value.data<float>()[0] = INFINITY;
  });
  EXPECT_NE(test::message_of<std::invalid_argument>([&] { run(model, folder / ""); }).find("at step 1 the loss is"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv
