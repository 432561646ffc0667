// compare(): the same numbers on any number of threads and after an interruption, and what it refuses.
#include "qkv/compare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

using test::TemporaryFolder;

CompareOptions quick() {
  return {.tasks = {"copy", "recall"}, .models = {"rnn", "transformer"}, .effort = CompareEffort::quick};
}

// All but times and memory.
std::string without_cost(Comparison comparison) {
  comparison.cost.clear();
  return to_json(comparison);
}

// Asks for an end at the first update of a run.
class StopAt : public CompareObserver {
 public:
  explicit StopAt(std::string run) : run_(std::move(run)) {}
  void receive(const CompareProgress& progress) override {
    if (progress.doing == run_) source_.request_stop();
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::string run_;
  std::stop_source source_{};
};

TEST(Compare, HasARowForEverything) {
  const TemporaryFolder folder;
  const Comparison comparison = compare(quick(), folder / "out");
  ASSERT_EQ(comparison.tasks.size(), 4u);
  for (const ComparedTask& task : comparison.tasks) {
    EXPECT_NEAR(static_cast<double>(task.parameters), 24000, 0.015 * 24000) << task.model;
    EXPECT_EQ(task.accuracy.front().values.size(), 3u);
  }
  ASSERT_EQ(comparison.structure.size(), 3u);  // the Transformer translates as well
  EXPECT_EQ(comparison.structure[0].sequential_steps.values.back(), 128);
  EXPECT_NEAR(comparison.structure[1].sequential_steps.exponent, 0, 1e-12);
  EXPECT_EQ(comparison.clipping.size(), 2u);
  EXPECT_EQ(comparison.gradients.size(), 4u);  // at the start and at the end
  EXPECT_EQ(comparison.cost.size(), 12u);      // of training and answering, on one and two threads
  const auto json = nlohmann::json::parse(test::slurp(folder / "out/comparison.json"));
  EXPECT_EQ(json, nlohmann::json::parse(to_json(comparison)));
  EXPECT_EQ(json["effort"], "quick");
  EXPECT_NE(to_text(comparison).find("transformer"), std::string::npos);
}

TEST(Compare, GivesTheSameNumbersOnAnyThreadsAndAfterAnEnd) {
  const TemporaryFolder folder;
  CompareOptions whole = quick();
  whole.tasks = {"copy"}, whole.models = {"rnn"};
  set_threads(1);
  const std::string expected = without_cost(compare(whole, folder / "one"));
  set_threads(2);
  CompareOptions options = whole;
  StopAt stop("copy-rnn-3");
  options.observer = &stop;
  options.stop = stop.token();
  EXPECT_THROW(compare(options, folder / "two"), Stopped);
  EXPECT_FALSE(std::filesystem::exists(folder / "two/comparison.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "two/runs/copy-rnn-1/result.json"));
  EXPECT_EQ(without_cost(compare(whole, folder / "two")), expected);
  // What is done is read, not done again.
  EXPECT_EQ(without_cost(compare(whole, folder / "two")), expected);
  set_threads(0);
}

TEST(Compare, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const auto message = [&](const CompareOptions& options) -> std::string {
    try {
      compare(options, folder / "out");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({.tasks = {"recal"}}).find("there is no task \"recal\"; there are recall, copy, "),
            std::string::npos);
  EXPECT_NE(message({.tasks = {"reversal"}, .models = {"gru"}}).find("reversal is for seq2seq-fixed, "),
            std::string::npos);
  EXPECT_NE(message({.models = {"mamba"}}).find("there is no model \"mamba\"; there are rnn, "), std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Compare, RefusesTheFolderOfAnother) {
  const TemporaryFolder folder;
  compare({.tasks = {"copy"}, .models = {"rnn"}, .effort = CompareEffort::quick}, folder / "out");
  EXPECT_THROW(compare({.tasks = {"copy"}, .models = {"rnn"}}, folder / "out"), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
