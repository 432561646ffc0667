// The log of a training, line by line, also after a restart.
#include "train/training_log.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(TrainingLog, SaysWhatChanged) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("log", "{\"step\":2,\"nll\":3.0}\n");
  const std::string change = "{\"step\":2,\"changed\":{\"rate\":{\"before\":\"0.1\",\"now\":\"0.2\"}}}\n";
  const std::string before = test::slurp(path);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  EXPECT_EQ(test::slurp(path), before + change);
  TrainingLog(path, 2);  // begun again before a checkpoint: the change is yet to come
  EXPECT_EQ(test::slurp(path), before);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  TrainingLog(path, 3);
  EXPECT_EQ(test::slurp(path), before + change);
}

TEST(TrainingLog, SaysAValidationOnce) {
  const test::TemporaryFolder folder;
  TrainingLog(folder / "log", 0).add(Validation{.step = 5, .loss = 0.5, .perplexity = 2, .best = true});
  const std::string line = test::slurp(folder / "log");
  TrainingLog(folder / "log", 5).add(Validation{.step = 5, .loss = 0.5, .perplexity = 2, .best = true});
  EXPECT_EQ(test::slurp(folder / "log"), line);
}

// exp(loss) leaves the doubles from a loss of 710 on.
TEST(TrainingLog, InfinitiesHaveNames) {
  const test::TemporaryFolder folder;
  TrainingLog log(folder / "log", 0);
  log.add(Validation{.step = 5, .loss = 1000, .perplexity = std::numeric_limits<double>::infinity(), .best = true});
  EXPECT_EQ(test::slurp(folder / "log"), "{\"step\":5,\"valid_loss\":1000.0,\"perplexity\":\"inf\",\"best\":true}\n");
}

TEST(TrainingLog, RefusesWhatIsNoLog) {
  const test::TemporaryFolder folder;
  test::expect_refused({{"nonsense\n", "not valid JSON"}, {"{\"loss\": 1}\n", "step is missing"}}, "log",
                       [](const std::string& path) { TrainingLog(path, 1); });
}

}  // namespace
}  // namespace qkv
