// Keeps what a training says, and calls back at each update.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkv/training.h"

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

}  // namespace qkv::test
