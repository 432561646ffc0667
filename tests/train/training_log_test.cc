#include "train/training_log.h"

#include <gtest/gtest.h>

#include "io/files_for_test.h"

namespace qkv {
namespace {

using training::TrainingLog;

TEST(TrainingLog, WritesOneObjectALine) {
  const test::TemporaryFolder folder;
  TrainingLog log(folder / "log", 0);
  log.add(TrainingProgress{.step = 5,
                           .epoch = 1,
                           .loss = 2.5,
                           .nll = 2.25,
                           .rate = 0.125,
                           .gradient_norm = 3,
                           .tokens_per_second = 64,
                           .peak_memory = 4096});
  log.add(Validation{.step = 5, .loss = 0.5, .perplexity = 2, .best = true});
  EXPECT_EQ(test::slurp(folder / "log"),
            "{\"step\":5,\"epoch\":1,\"loss\":2.5,\"nll\":2.25,\"rate\":0.125,\"gradient_norm\":3.0,\"tokens_per_"
            "second\":64.0,"
            "\"peak_memory\":4096}\n"
            "{\"step\":5,\"valid_loss\":0.5,\"perplexity\":2.0,\"best\":true}\n");
}

TEST(TrainingLog, GoesOnAfterTheStepOfACheckpoint) {
  const test::TemporaryFolder folder;
  const std::string kept = "{\"step\":1,\"loss\":3.5,\"nll\":3.0}\n{\"step\":2,\"valid_loss\":4.0}\n";
  const std::string path = folder.put("log", kept + "{\"step\":3,\"nll\":1.0}\n{\"step\":4,\"lo");
  const TrainingLog log(path, 2);
  EXPECT_EQ(test::slurp(path), kept);
  ASSERT_EQ(log.training().size(), 1u);
  EXPECT_EQ(log.training()[0].loss, 3);
  ASSERT_EQ(log.validation().size(), 1u);
  EXPECT_EQ(log.validation()[0].step, 2);
  EXPECT_TRUE(TrainingLog(path, 0).training().empty());  // a training from its beginning
  EXPECT_EQ(test::slurp(path), "");
}

TEST(TrainingLog, RefusesWhatIsNoLog) {
  const test::TemporaryFolder folder;
  test::expect_refused({{"nonsense\n", "not valid JSON"}, {"{\"loss\": 1}\n", "step is missing"}}, "log",
                       [](const std::string& path) { TrainingLog(path, 1); });
}

}  // namespace
}  // namespace qkv
