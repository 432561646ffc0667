// Checkpoints: saved, restored, damaged and removed.
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
using training::RunIdentity;

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
    for (const auto& entry : fs::directory_iterator(folder_ / "c")) {
      if (entry.path().filename() != "lock") found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  void save(const TinyModel& model, const Adam& adam, const LoopState& state) const {
    checkpoints_.save(model, adam, state, identity_);
  }
  // The step that a training would go on from; 0: none.
  std::int64_t restore(TinyModel& model) {
    Adam adam({});
    model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
    const auto found = checkpoints_.newest();
    if (found) checkpoints_.restore(*found, model, adam);
    checkpoints_.remove_after(found ? found->state.step : 0);
    return found ? found->state.step : 0;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> notices_;
  const Checkpoints checkpoints_{folder_ / "c", 10, 2, [this](const std::string& text) { notices_.push_back(text); }};
  const RunIdentity identity_{
      .fixed = {{"a", "1"}, {"b c", "x"}}, .settings = {{"d", "0.1"}}, .steps = 90, .patience = 8};
};

TEST_F(CheckpointsTest, BringBackEverything) {
  TinyModel model;
  Adam adam({}), again({});
  EXPECT_FALSE(checkpoints_.newest());
  move(model, adam);
  const LoopState state{.step = 10,
                        .epoch = 2,
                        .batch = 7,
                        .since_log = {.sum = 0.1, .nll = 0.3, .count = 3},
                        .best_loss = 1.0 / 3,
                        .best_step = 5,
                        .waits = 4,
                        .unvalidated = true};
  save(model, adam, state);
  TinyModel other;
  fill(other, 9);
  move(other, again);
  const auto restored = checkpoints_.newest();
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->path, folder_ / "c/step-000000010");
  EXPECT_EQ(restored->state.step, 10);
  EXPECT_EQ(restored->state.epoch, 2);
  EXPECT_EQ(restored->state.batch, 7);
  EXPECT_EQ(restored->state.since_log.sum, 0.1);
  EXPECT_EQ(restored->state.since_log.nll, 0.3);
  EXPECT_EQ(restored->state.since_log.count, 3);
  EXPECT_EQ(restored->state.best_loss, 1.0 / 3);
  EXPECT_EQ(restored->state.best_step, 5);
  EXPECT_TRUE(restored->state.unvalidated);
  EXPECT_EQ(restored->state.waits, 4);
  EXPECT_EQ(restored->identity.fixed, identity_.fixed);
  EXPECT_EQ(restored->identity.settings, identity_.settings);
  EXPECT_EQ(restored->identity.steps, 90);
  EXPECT_EQ(restored->identity.patience, 8);
  checkpoints_.restore(*restored, other, again);
  EXPECT_EQ(other.bits(), model.bits());
  EXPECT_EQ(again.steps(), 10);
  test::expect_equal(again.moments().at("table").first, adam.moments().at("table").first);
  test::expect_equal(again.moments().at("bias").second, adam.moments().at("bias").second);
}

TEST_F(CheckpointsTest, KeepThoseThatCountAndTheOneBefore) {
  TinyModel model;
  const Adam adam({});
  for (const std::int64_t step : {10, 20, 30}) save(model, adam, {.step = step});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000020", "step-000000030"}));
  save(model, adam, {.step = 33});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000020", "step-000000030", "step-000000033"}));
  save(model, adam, {.step = 40});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000030", "step-000000033", "step-000000040"}));
  save(model, adam, {.step = 50});
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000040", "step-000000050"}));
}

TEST_F(CheckpointsTest, DamagedOnesGiveWayToTheOneBefore) {
  TinyModel model;
  Adam adam({});
  move(model, adam);
  fill(model, 1);
  save(model, adam, {.step = 10});
  fill(model, 2);
  save(model, adam, {.step = 20});
  const std::string path = folder_ / "c/step-000000020/weights.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  fs::create_directory(folder_ / "c/step-000000030.unfinished");
  fs::create_directory(folder_ / "c/step-000000040");  // half removed: no manifest
  TinyModel other;
  EXPECT_EQ(restore(other), 10);
  fill(model, 1);
  EXPECT_EQ(other.bits(), model.bits());
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000010"});
  ASSERT_EQ(notices_.size(), 3u);
  EXPECT_NE(notices_[1].find("weights.safetensors"), std::string::npos);
}

TEST_F(CheckpointsTest, KeepTheBestAndThoseThatEndThere) {
  TinyModel model;
  const Adam adam({});
  for (const std::int64_t step : {10, 20, 30, 40, 50, 60, 64, 66}) {
    save(model, adam, {.step = step, .best_step = std::min<std::int64_t>(step - step % 10, 30)});
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000020", "step-000000030", "step-000000050", "step-000000060",
                                               "step-000000064", "step-000000066"}));
}

TEST_F(CheckpointsTest, WithoutAWholeOneNothingIsRemoved) {
  TinyModel model;
  const Adam adam({});
  save(model, adam, {.step = 10});
  fs::remove(folder_ / "c/step-000000010/manifest.json");
  EXPECT_NE(test::message_of<FormatError>([&] { checkpoints_.newest(); }).find("all checkpoints are damaged"),
            std::string::npos);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000010"});
}

TEST_F(CheckpointsTest, AverageTakesThoseThatCountAndAreWhole) {
  TinyModel model, expected;
  const Adam adam({});
  for (const std::int64_t step : {10, 20, 25, 30}) {
    fill(model, static_cast<float>(step));
    save(model, adam, {.step = step, .best_step = 20});
  }
  EXPECT_EQ(checkpoints_.ending_at(30), (std::vector<std::int64_t>{20, 30}));  // 25 was an interruption
  EXPECT_EQ(checkpoints_.ending_at(20), (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(checkpoints_.ending_at(25), (std::vector<std::int64_t>{20, 25}));  // an end
  checkpoints_.average({20, 30}, model);
  fill(expected, 25);
  EXPECT_EQ(model.bits(), expected.bits());
  checkpoints_.average({30}, model);
  fill(expected, 30);
  EXPECT_EQ(model.bits(), expected.bits());
  std::string bytes = test::slurp(folder_ / "c/step-000000020/weights.safetensors");
  bytes.back() ^= 1;
  folder_.put("c/step-000000020/weights.safetensors", bytes);
  EXPECT_EQ(checkpoints_.ending_at(30), std::vector<std::int64_t>{30});
  ASSERT_FALSE(notices_.empty());
  EXPECT_NE(notices_.back().find("step-000000020"), std::string::npos);
}

TEST_F(CheckpointsTest, ExistWhereThereIsOne) {
  TinyModel model;
  EXPECT_FALSE(Checkpoints::exist(folder_ / "c"));
  EXPECT_FALSE(Checkpoints::exist(folder_ / "nowhere"));
  save(model, Adam({}), {.step = 10});
  EXPECT_TRUE(Checkpoints::exist(folder_ / "c"));
}

}  // namespace
}  // namespace qkv
