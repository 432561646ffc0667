// Which changes of a training allow it to resume.
#include "train/run_identity.h"

#include <gtest/gtest.h>

#include "io/files_for_test.h"

namespace qkv {
namespace {

using training::Change;
using training::changes_of;
using training::identity_of;
using training::RunIdentity;

const std::vector<TokenPair> kPairs{{{1, 2}, {3}}, {{4}, {5, 6}}};

RunIdentity identity(const TrainingConfig& config = {}, const std::vector<TokenPair>& train = kPairs,
                     const std::vector<TokenPair>& valid = kPairs) {
  RunIdentity found = identity_of(config, PairExamples(train), PairExamples(valid),
                                  {.identity = {{"heads", "2"}}, .settings = {{"dropout", "0.1"}}});
  found.steps = 100;
  return found;
}

std::string changed(const RunIdentity& before, const RunIdentity& now) {
  return to_text(changes_of(before, now, 50, "a/checkpoint"));
}

TEST(RunIdentity, IsTheSameForTheSame) { EXPECT_EQ(changed(identity(), identity()), ""); }

TEST(RunIdentity, MoreStepsAndMorePatienceAreNoChange) {
  RunIdentity longer = identity({.patience = 4});
  longer.steps = 200;
  EXPECT_EQ(changed(identity({.patience = 2}), longer), "");
  EXPECT_EQ(changed(identity({.patience = 2}), identity()), "");  // 0: any
  EXPECT_EQ(changed(identity({.patience = 2}), identity({.patience = 1})), "patience 2 -> 1");
  EXPECT_EQ(changed(identity(), identity({.patience = 1})), "patience 0 -> 1");
  EXPECT_EQ(changed(longer, identity({.patience = 4})), "");  // 100 of 200 steps: 50 are done
  longer.steps = 49;
  EXPECT_EQ(changed(identity({.patience = 4}), longer), "steps 100 -> 49");
}

TEST(RunIdentity, TheRateOfACosineDependsOnTheSteps) {
  const RunIdentity before = identity({.schedule = {.decay = Decay::cosine}});
  RunIdentity longer = before;
  longer.steps = 200;
  EXPECT_EQ(changed(before, before), "");
  EXPECT_EQ(changed(before, longer), "steps 100 -> 200");
}

TEST(RunIdentity, SettingsMayChange) {
  TrainingConfig other;
  other.schedule.rate = 0.25;
  other.clip = 0.1;
  EXPECT_EQ(changed(identity(), identity(other)), "clip 0 -> 0.1, rate 0.001 -> 0.25");
  RunIdentity now = identity();
  now.settings["dropout"] = "0.2";
  EXPECT_EQ(changed(identity(), now), "dropout 0.1 -> 0.2");
}

TEST(RunIdentity, TheRestMayNot) {
  const auto refused = [](const RunIdentity& now) {
    return test::message_of<std::invalid_argument>([&] { changed(identity(), now); });
  };
  EXPECT_EQ(refused(identity({.seed = 2})),
            "a/checkpoint: belongs to another training (seed 1 -> 2); train into another folder");
  EXPECT_NE(refused(identity({}, {{{1, 2}, {3}}})).find("(training data "), std::string::npos);
  EXPECT_NE(refused(identity({}, kPairs, {{{1, 2}, {3}}})).find("(validation data "), std::string::npos);
  // The same tokens, cut elsewhere.
  EXPECT_NE(refused(identity({}, {{{1}, {2, 3}}, {{4}, {5, 6}}})).find("(training data "), std::string::npos);
  RunIdentity now = identity();
  now.fixed.erase("heads");
  EXPECT_NE(refused(now).find("(heads 2 -> nothing)"), std::string::npos);
}

}  // namespace
}  // namespace qkv
