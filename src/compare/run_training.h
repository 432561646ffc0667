// What the trainings of all models of a comparison have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "compare/run.h"
#include "qkv/train/training.h"

namespace qkv::comparison {

struct RunPlace {
  std::string folder;
  std::string identity;  // what the weights depend on
  std::function<void(std::int64_t)> on_step;
};

// Adam with a cosine schedule, and one checkpoint, at the end.
TrainingConfig config_of(const Run& run);

// Trains; returns the norms of all updates, those before an interruption too.
template <class Batch>
GradientNorms train_run(const Run& run, const RunPlace& place, TrainableOn<Batch>& model,
                        const TrainingData<Batch>& data);

// Calls back at each update.
class StepObserver : public TrainingObserver {
 public:
  explicit StepObserver(const std::function<void(std::int64_t)>& on_step) : on_step_(on_step) {}
  void receive(const TrainingProgress& progress) override { on_step_(progress.step); }
  void receive(const Validation&) override {}
  void notice(const std::string&) override {}

 private:
  const std::function<void(std::int64_t)>& on_step_;
};

// Those of the log of a training.
GradientNorms norms_in(const std::string& log);

template <class Batch>
GradientNorms train_run(const Run& run, const RunPlace& place, TrainableOn<Batch>& model,
                        const TrainingData<Batch>& data) {
  StepObserver observer(place.on_step);
  train(model, data, config_of(run), place.folder, {.observer = &observer, .identity = {{"run", place.identity}}});
  return norms_in(place.folder + "/log.jsonl");
}

}  // namespace qkv::comparison
