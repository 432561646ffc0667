// compare(): the same numbers on any number of threads and after an interruption, what it refuses, and its files.
#include "lab/compare/compare.h"

#include "io/files_for_test.h"
#include "lab/compare/run.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

using test::TemporaryFolder;

CompareOptions quick(const std::string& task, const std::vector<std::string>& models) {
  return {.tasks = {task}, .models = models, .effort = CompareEffort::quick};
}

// All but times and memory.
std::string without_cost(Comparison comparison) {
  comparison.cost.clear();
  return to_json(comparison);
}

// Asks for an end at the first update of a run.
struct StopAtRun : CompareObserver {
  explicit StopAtRun(std::string name) : run(std::move(name)) {}
  void receive(const CompareProgress& progress) override {
    if (progress.doing == run) source.request_stop();
  }
  std::string run;
  std::stop_source source{};
};

TEST(Compare, HasARowForEverything) {
  const TemporaryFolder folder;
  const Comparison comparison = compare(quick("recall", {"rnn", "transformer"}), folder / "out");
  ASSERT_EQ(comparison.tasks.size(), 2u);
  for (const ComparedTask& task : comparison.tasks) {
    EXPECT_NEAR(static_cast<double>(task.parameters), 24000, 0.015 * 24000) << task.model;
    EXPECT_EQ(task.accuracy.front().values.size(), 3u);
  }
  ASSERT_EQ(comparison.structure.size(), 3u);  // the Transformer translates as well
  EXPECT_EQ(comparison.structure[0].sequential_steps.values.back(), 128);
  EXPECT_NEAR(comparison.structure[1].sequential_steps.exponent->value, 0, 1e-12);
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
  const CompareOptions whole = quick("copy", {"rnn"});
  set_threads(1);
  const std::string expected = without_cost(compare(whole, folder / "one"));
  set_threads(2);
  CompareOptions options = whole;
  StopAtRun stop("copy-rnn-3");
  options.observer = &stop;
  options.stop = stop.source.get_token();
  EXPECT_THROW(compare(options, folder / "two"), Stopped);
  EXPECT_FALSE(std::filesystem::exists(folder / "two/comparison.json"));
  // One of them is finished before the third begins, and is read now.
  EXPECT_TRUE(std::filesystem::exists(folder / "two/runs/copy-rnn-1/result.json") ||
              std::filesystem::exists(folder / "two/runs/copy-rnn-2/result.json"));
  EXPECT_EQ(without_cost(compare(whole, folder / "two")), expected);
  set_threads(0);
  // The folder is that of another comparison.
  EXPECT_THROW(compare({.tasks = {"copy"}, .models = {"rnn"}}, folder / "two"), std::invalid_argument);
}

TEST(Compare, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const std::pair<CompareOptions, std::string> rows[] = {
      {{.tasks = {"recal"}}, "there is no task \"recal\"; there are recall, copy, "},
      {{.tasks = {"reversal"}, .models = {"gru"}}, "reversal is for seq2seq-fixed, "},
      {{.models = {"mamba"}}, "there is no model \"mamba\"; there are rnn, "},
  };
  for (const auto& [options, part] : rows) {
    const auto call = [&, &asked = options] { compare(asked, folder / "out"); };
    const std::string message = test::message_of<std::invalid_argument>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(RunResult, ComesBackAsItWas) {
  using namespace comparison;
  const TemporaryFolder folder;
  const std::string path = folder / "result.json";
  EXPECT_FALSE(read_result(path, "this"));
  const RunResult result{.parameters = 24000,
                         .asked = 7,
                         .accuracy = {{1, 0.1}, {128, 1.0 / 3}},
                         .gradients = {{1, 1}, {128, 1e-43}},
                         .norms = {.largest = 12.5, .median = 2}};
  write_result(path, "this", result);
  const auto found = read_result(path, "this");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->parameters, 24000);
  EXPECT_EQ(found->asked, 7);
  EXPECT_EQ(found->accuracy, result.accuracy);
  EXPECT_EQ(found->gradients, result.gradients);
  EXPECT_EQ(found->norms.largest, 12.5);
  EXPECT_EQ(found->norms.median, 2);
  EXPECT_THROW(read_result(path, "that"), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
