// The loop on a model of a hundred weights: it learns, it stops when it should, and nothing that interrupts it shows in
// what comes out.
#include <signal.h>
#include <unistd.h>

#include "io/files_for_test.h"
#include "qkv/threads.h"
#include "stop_for_test.h"
#include "train/watcher.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::Stopper;
using test::TemporaryFolder;
using test::TinyModel;
using test::Watcher;
using Invalid = std::invalid_argument;

const std::vector<TokenPair> kTrainingPairs = test::tiny_pairs(200, 1), kValidationPairs = test::tiny_pairs(30, 2);
const PairExamples kTraining(kTrainingPairs), kValidation(kValidationPairs);

TrainingConfig config() {
  return {.seed = 7,
          .steps = 60,
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
  return train(model, {.train = kTraining, .valid = kValidation}, settings, folder, options);
}

// The weights that a training, or the rest of it, ends with.
std::string bits_of(const std::string& folder, const TrainingOptions& options = {},
                    const TrainingConfig& settings = config()) {
  TinyModel model;
  run(model, folder, options, settings);
  return model.bits();
}

const std::string& undisturbed() {
  static const std::string bits = bits_of(TemporaryFolder() / "");
  return bits;
}

TEST(Trainer, Learns) {
  const TemporaryFolder folder;
  TinyModel model;
  Watcher watcher;
  EXPECT_EQ(run(model, folder / "", {.observer = &watcher}).step, 60);
  EXPECT_EQ(watcher.last.step, 60);
  EXPECT_GT(watcher.last.tokens_per_second, 0);
  ASSERT_EQ(watcher.validations.size(), 3u);
  EXPECT_LT(watcher.validations.back().loss, 0.2);
  EXPECT_LT(watcher.validations.back().loss, watcher.validations.front().loss / 2);
  EXPECT_DOUBLE_EQ(watcher.validations.back().perplexity, std::exp(watcher.validations.back().loss));
  EXPECT_TRUE(test::slurp(folder / "loss.svg").ends_with("</svg>\n"));
  const std::string log = test::slurp(folder / "log.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 60 / 7 + 3);
  TrainingConfig other = config();
  other.seed = 8;
  EXPECT_NE(bits_of(folder / "other", {}, other), undisturbed());
}

TEST(Trainer, HasTheSameBitsForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    set_threads(threads);
    EXPECT_EQ(bits_of(TemporaryFolder() / ""), undisturbed()) << threads;
  }
  set_threads(0);
}

// Wherever it is asked: between batches, in a validation, in the middle of an update's gradients, which come again.
TEST(Trainer, StopsAtAnyQuestion) {
  const TemporaryFolder folder;
  set_threads(1);
  const std::int64_t questions = test::questions_of([&] { bits_of(folder / "whole"); });
  EXPECT_GE(questions, 120);  // of 60 updates in two batches
  TinyModel model;            // goes on as it was left, with gradients of half an update
  for (int part = 0; part < 11; ++part) {
    const test::StopAt stop(questions / 13 + part);
    EXPECT_THROW(run(model, folder / "parts", {.stop = stop.token()}), Stopped) << part;
  }
  run(model, folder / "parts");
  set_threads(0);
  EXPECT_EQ(model.bits(), undisturbed());
  EXPECT_EQ(test::slurp(folder / "parts/loss.svg"),
            test::slurp(folder / "whole/loss.svg"));  // of all losses of the log
}

// By an alarm, which comes each time a little later than the last, in the middle of anything.
TEST(TrainerSlow, SurvivesBeingKilledFiftyTimes) {
  const TemporaryFolder folder;
  Random random(50);
  for (int i = 0; i < 50; ++i) {
    const auto microseconds = static_cast<useconds_t>(random.below(4000) + 500);
    const auto begin = [&] {
      ::ualarm(microseconds, 0);
      bits_of(folder / "");
      ::pause();
    };
    EXPECT_EXIT(begin(), ::testing::KilledBySignal(SIGALRM), "");
  }
  EXPECT_EQ(bits_of(folder / ""), undisturbed());
}

// At moments that no luck decides: in the middle of each of the updates around a checkpoint.
TEST(Trainer, SurvivesBeingKilledAtAnyUpdate) {
  const TemporaryFolder folder;
  Watcher watcher;
  for (std::int64_t at = 17; at < 24; ++at) {
    Watcher killer;
    killer.on_step = [&](const TrainingProgress& progress) {
      if (progress.step == at) ::kill(getpid(), SIGKILL);
    };
    EXPECT_EXIT(bits_of(folder / "", {.observer = &killer}), ::testing::KilledBySignal(SIGKILL), "") << at;
  }
  EXPECT_EQ(bits_of(folder / "", {.observer = &watcher}), undisturbed());
  ASSERT_EQ(watcher.notices.size(), 1u);
  test::expect_contains(watcher.notices[0], "step-000000020");
}

// With room for so many bytes of a file: less than the log has, or the picture of losses, or a checkpoint's moments.
TEST(Trainer, AFullDiskLosesNothing) {
  const std::string expected = undisturbed();
  for (const rlim_t room : {100, 700, 1000, 1600}) {
    const TemporaryFolder folder;
    Watcher watcher;
    std::optional<test::FileSizeLimit> limit;
    watcher.on_step = [&](const TrainingProgress& progress) {
      if (progress.step == 50) limit.emplace(room);
    };
    EXPECT_THROW(bits_of(folder / "", {.observer = &watcher}), IoError) << room;
    limit.reset();
    EXPECT_GE(watcher.last.step, 50);
    EXPECT_TRUE(fs::exists(folder / "checkpoints/step-000000040"));
    EXPECT_FALSE(fs::exists(folder / "checkpoints/step-000000060.unfinished"));
    EXPECT_EQ(bits_of(folder / ""), expected) << room;
  }
}

// Of no bits: of a clock that has run out at every update.
TEST(Trainer, CheckpointsOfTheClockDoNotShow) {
  const TemporaryFolder folder;
  TrainingConfig settings = config();
  settings.checkpoint_minutes = 1e-12;
  Stopper stopper(24);
  EXPECT_THROW(bits_of(folder / "", stopper.options(), settings), Stopped);
  EXPECT_TRUE(fs::exists(folder / "checkpoints/step-000000023/manifest.json"));
  EXPECT_EQ(bits_of(folder / ""), undisturbed());
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
  SeedKeeper model;
  run(model, TemporaryFolder() / "");
  EXPECT_GE(model.seeds.size(), 60u);
  EXPECT_EQ(std::set(model.seeds.begin(), model.seeds.end()).size(), model.seeds.size());
}

TEST(Trainer, ClipsByTheNormOfAll) {
  // Adam's first step does not depend on the size of the gradient, its second moments do.
  TrainingConfig settings = config();
  settings.adam = {.beta1 = 0, .beta2 = 0, .epsilon = 1};  // a step is rate * g / (|g| + 1)
  settings.steps = settings.validate_every = 1;
  settings.schedule = {.rate = 1, .warmup = 0};
  settings.clip = 1e-3;
  const auto numbers = [](const TinyModel& of) {
    std::vector<double> all;
    of.visit([&](const std::string&, const Parameter& own) {
      std::ranges::copy(test::values_of(own.value), std::back_inserter(all));
    });
    return all;
  };
  TinyModel model;
  const std::vector<double> before = numbers(model);
  run(model, TemporaryFolder() / "", {}, settings);
  double squares = 0;
  for (std::size_t i = 0; i < before.size(); ++i) squares += std::pow(numbers(model)[i] - before[i], 2);
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 2e-6);  // the 1 / (|g| + 1) takes up to a thousandth off
}

TEST(Trainer, SaysThatItEndsWithinTheWarmUp) {
  for (const std::int64_t steps : {9, 10}) {
    const TemporaryFolder folder;
    Watcher watcher;
    TinyModel model;
    TrainingConfig settings = config();
    settings.steps = steps;
    run(model, folder / "", {.observer = &watcher}, settings);
    const std::vector<std::string> said{"9 updates, fewer than the warm-up of 10: the rate stays below 0.2"};
    EXPECT_EQ(watcher.notices, steps < 10 ? said : std::vector<std::string>());
  }
}

TEST(Trainer, RefusesWhatCannotBeMeant) {
  const TemporaryFolder folder;
  TinyModel model;
  const auto expect = [&](const std::string& message, const auto& change, const PairExamples& training = kTraining,
                          const PairExamples& valid = kValidation) {
    TrainingConfig settings = config();
    change(settings);
    EXPECT_EQ(message_of<Invalid>([&] { train(model, {.train = training, .valid = valid}, settings, folder / ""); }),
              "train: " + message);
  };
  expect("steps is 0; it must be 1 or more", [](TrainingConfig& c) { c.steps = 0; });
  expect("epochs is -1; it must be 0 or more", [](TrainingConfig& c) { c.epochs = -1; });
  expect("batch_tokens is 0; it must be 1 or more", [](TrainingConfig& c) { c.batch_tokens = 0; });
  expect("accumulate is 0; it must be 1 or more", [](TrainingConfig& c) { c.accumulate = 0; });
  expect("warmup is -1; it must be 0 or more", [](TrainingConfig& c) { c.schedule.warmup = -1; });
  expect("log_every is 0; it must be 1 or more", [](TrainingConfig& c) { c.log_every = 0; });
  expect("validate_every is 0; it must be 1 or more", [](TrainingConfig& c) { c.validate_every = 0; });
  expect("patience is -1; it must be 0 or more", [](TrainingConfig& c) { c.patience = -1; });
  expect("average is 0; it must be 1 or more", [](TrainingConfig& c) { c.average = 0; });
  expect("rate is 0; it must be above 0", [](TrainingConfig& c) { c.schedule.rate = 0; });
  expect("clip is -1; it must be 0 or more", [](TrainingConfig& c) { c.clip = -1; });
  expect("checkpoint_minutes is -1; it must be 0 or more", [](TrainingConfig& c) { c.checkpoint_minutes = -1; });
  TrainingConfig tiny = config();
  tiny.adam.epsilon = 1e-300;  // 0 in f32
  test::expect_refusal<Invalid>([&] { train(model, {.train = kTraining, .valid = kValidation}, tiny, folder / ""); },
                                "epsilon is 1e-300; it must be at least 1.2e-38, the smallest normal number of f32");
  const PairExamples none({});
  expect("the train data has no pairs", [](TrainingConfig&) {}, none);
  expect("the valid data has no pairs", [](TrainingConfig&) {}, kTraining, none);
  EXPECT_TRUE(folder.names().empty());
  model.update([](const std::string&, Parameter& own) { own.value.data<float>()[0] = INFINITY; });
  test::expect_refusal<Invalid>([&] { run(model, folder / ""); }, "at step 1 the loss is");
}

// From step 24 of 40, with another config than the one that began. Which changes are which: RunIdentity.
TEST(Trainer, GoesOnWithWhatWeightsDoNotDependOn) {
  const auto expect = [](const auto& change) {
    const TemporaryFolder folder;
    TrainingConfig settings = config();
    settings.steps = 40;
    EXPECT_THROW(bits_of(folder / "a", Stopper(24).options(), settings), Stopped);
    change(settings);
    EXPECT_EQ(bits_of(folder / "a", {}, settings), bits_of(folder / "b", {}, settings));
  };
  expect([](TrainingConfig& c) { c.log_every = 3; });
  expect([](TrainingConfig& c) { c.steps = 50; });
  expect([](TrainingConfig& c) { c.steps = 30; });
  expect([](TrainingConfig& c) { c.epochs = 8; });
}

TEST(Trainer, GoesOnWithOtherSettingsOnRequest) {
  const auto expect = [](const std::string& change, const auto& set) {
    const TemporaryFolder folder;
    TrainingConfig settings = config();
    settings.steps = 40;
    settings.schedule.decay = Decay::cosine;
    EXPECT_THROW(bits_of(folder / "", Stopper(24).options(), settings), Stopped);
    set(settings);
    test::expect_refusal<Invalid>([&] { bits_of(folder / "", {}, settings); },
                                  "step-000000024: was written with other settings (" + change + ")");
    Watcher changed;
    const std::string bits = bits_of(folder / "", {.observer = &changed, .change = true}, settings);
    test::expect_contains(changed.notices.at(1), "changed from step 24 on: " + change);
    const std::string log = test::slurp(folder / "log.jsonl"), name = change.substr(0, change.find(' '));
    test::expect_contains(log, "{\"step\":24,\"changed\":{\"" + name + "\":{\"before\":");
    EXPECT_EQ(bits_of(folder / "", {}, settings), bits);  // the change is made
    EXPECT_EQ(test::slurp(folder / "log.jsonl"), log);
  };
  expect("rate 0.2 -> 0.1", [](TrainingConfig& c) { c.schedule.rate = 0.1; });
  expect("batch_tokens 60 -> 90", [](TrainingConfig& c) { c.batch_tokens = 90; });
  expect("accumulate 2 -> 3", [](TrainingConfig& c) { c.accumulate = 3; });
  expect("steps 40 -> 50", [](TrainingConfig& c) { c.steps = 50; });
  const TemporaryFolder folder;
  TrainingConfig other = config();
  bits_of(folder / "");
  other.seed = 8;
  EXPECT_THROW(bits_of(folder / "", {.change = true}, other), Invalid);
}

}  // namespace
}  // namespace qkv
