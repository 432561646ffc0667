// Keeps what a training says, and calls back at each update.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/train/training.h"

namespace qkv::test {

class Watcher : public TrainingObserver {
 public:
  void receive(const TrainingProgress& progress) override {
    last = progress;
    if (on_step) on_step(progress);
  }
  void receive(const Validation& validation) override { validations.push_back(validation); }
  void notice(const std::string& text) override { notices.push_back(text); }

  TrainingProgress last{};
  std::vector<Validation> validations{};
  std::vector<std::string> notices{};
  std::function<void(const TrainingProgress&)> on_step{};
};

// Ends a training, which throws Stopped, after so many updates.
class Stopper : public Watcher {
 public:
  explicit Stopper(std::int64_t step) {
    on_step = [this, step](const TrainingProgress& progress) {
      if (progress.step == step) source_.request_stop();
    };
  }
  Stopper(const Stopper&) = delete;

  TrainingOptions options() { return {.observer = this, .stop = source_.get_token()}; }

 private:
  std::stop_source source_{};
};

}  // namespace qkv::test
