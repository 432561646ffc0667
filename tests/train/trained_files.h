// Trainings by train_files() in a folder of their own.
#pragma once

#include "io/files_for_test.h"
#include "qkv/stop.h"
#include "qkv/threads.h"
#include "qkv/train/train_files.h"
#include "train/watcher.h"

namespace qkv::test {

class TrainedFiles : public ::testing::Test {
 protected:
  std::string weights_in(const std::string& out) {
    files_.out = folder_ / out;
    train_files(files_);
    return slurp(files_.out + "/model.safetensors");
  }
  // On other threads, and where it was stopped at these steps.
  void expect_same_bits(std::initializer_list<std::int64_t> stopped_at) {
    const std::string whole = weights_in("whole");
    set_threads(threads() == 3 ? 2 : 3);
    EXPECT_EQ(weights_in("threads"), whole);
    set_threads(0);
    files_.out = folder_ / "cut";
    for (const std::int64_t step : stopped_at) EXPECT_THROW(train_files(files_, Stopper(step).options()), Stopped);
    EXPECT_EQ(weights_in("cut"), whole);
  }

  const TemporaryFolder folder_;
  TrainTranslatorFiles files_;
};

}  // namespace qkv::test
