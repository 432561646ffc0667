#include "train/checkpoints.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/files_for_test.h"
#include "train/tiny_model.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;
using test::TinyModel;
using training::Checkpoints;
using training::LoopState;

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
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "c")) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::optional<LoopState> restore(TinyModel& model) {
    Adam adam({});
    model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    return checkpoints_.restore(model, adam, [&](const std::string& text) { notices_.push_back(text); });
  }

  test::TemporaryFolder folder_;
  Checkpoints checkpoints_{folder_ / "c", "identity", 10, 2};
  std::vector<std::string> notices_;
};

TEST_F(CheckpointsTest, BringBackEverything) {
  TinyModel model;
  Adam adam({}), again({});
  EXPECT_FALSE(restore(model));
  move(model, adam);
  const LoopState state{.step = 10,
                        .epoch = 2,
                        .batch = 7,
                        .since_log = {.sum = 0.1, .nll = 0.3, .tokens = 3},
                        .best_loss = 1.0 / 3,
                        .best_step = 5,
                        .waits = 4};
  checkpoints_.save(model, adam, state);
  TinyModel other;
  fill(other, 9);
  move(other, again);
  const std::optional<LoopState> restored = checkpoints_.restore(other, again, [](const std::string&) {});
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->step, 10);
  EXPECT_EQ(restored->epoch, 2);
  EXPECT_EQ(restored->batch, 7);
  EXPECT_EQ(restored->since_log.sum, 0.1);
  EXPECT_EQ(restored->since_log.nll, 0.3);
  EXPECT_EQ(restored->since_log.tokens, 3);
  EXPECT_EQ(restored->best_loss, 1.0 / 3);
  EXPECT_EQ(restored->best_step, 5);
  EXPECT_EQ(restored->waits, 4);
  EXPECT_EQ(other.bits(), model.bits());
  EXPECT_EQ(again.steps(), 10);
  test::expect_equal(again.moments().at("table").first, adam.moments().at("table").first);
  test::expect_equal(again.moments().at("bias").second, adam.moments().at("bias").second);
}

TEST_F(CheckpointsTest, KeepThoseThatCountAndTheOneBefore) {
  TinyModel model;
  const Adam adam({});
  for (const std::int64_t step : {10, 20, 30}) checkpoints_.save(model, adam, {.step = step});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000020", "step-000000030"}));
  checkpoints_.save(model, adam, {.step = 33});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000020", "step-000000030", "step-000000033"}));
  checkpoints_.save(model, adam, {.step = 40});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000030", "step-000000033", "step-000000040"}));
  checkpoints_.save(model, adam, {.step = 50});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000040", "step-000000050"}));
}

TEST_F(CheckpointsTest, DamagedOnesGiveWayToTheOneBefore) {
  TinyModel model;
  Adam adam({});
  move(model, adam);
  fill(model, 1);
  checkpoints_.save(model, adam, {.step = 10});
  fill(model, 2);
  checkpoints_.save(model, adam, {.step = 20});
  const std::string path = folder_ / "c/step-000000020/weights.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  fs::create_directory(folder_ / "c/step-000000030.unfinished");
  fs::create_directory(folder_ / "c/step-000000040");  // half removed: no manifest
  TinyModel other;
  EXPECT_EQ(restore(other).value().step, 10);
  fill(model, 1);
  EXPECT_EQ(other.bits(), model.bits());
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000010"});
  ASSERT_EQ(notices_.size(), 3u);
  EXPECT_NE(notices_[1].find("weights.safetensors"), std::string::npos);
}

TEST_F(CheckpointsTest, OfAnotherTrainingAreRefused) {
  TinyModel model;
  Adam adam({});
  move(model, adam);
  checkpoints_.save(model, adam, {.step = 10});
  const Checkpoints others(folder_ / "c", "another", 10, 2);
  EXPECT_NE(test::message_of<std::invalid_argument>([&] {
              others.restore(model, adam, [](const std::string&) {});
            }).find("another config or other data"),
            std::string::npos);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000010"});
}

TEST_F(CheckpointsTest, AverageTakesTheLastThatCount) {
  TinyModel model;
  const Adam adam({});
  for (const std::int64_t step : {10, 20, 25, 30}) {
    fill(model, static_cast<float>(step));
    checkpoints_.save(model, adam, {.step = step});
  }
  checkpoints_.average(model);
  TinyModel expected;
  fill(expected, 25);  // of 20 and 30; 25 was an interruption
  EXPECT_EQ(model.bits(), expected.bits());
}

}  // namespace
}  // namespace qkv
