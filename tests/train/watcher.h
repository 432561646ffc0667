// What tests of trainings share: what a training says, its end after some updates, weights bit by bit, changed configs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/files_for_test.h"
#include "qkv/train/training.h"

namespace qkv::test {

// Keeps what a training says, and calls back at each update.
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

// All weights, in order; they are f32.
inline std::string weight_bytes(const Trainable& model) {
  std::string bytes;
  model.visit([&](const std::string&, const Parameter& p) {
    bytes.append(reinterpret_cast<const char*>(p.value.data<float>()),
                 static_cast<std::size_t>(p.value.element_count()) * sizeof(float));
  });
  return bytes;
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nmust have: " << part;
}

// That call() throws the error, with such a message.
template <class Error, class Call>
void expect_refusal(const Call& call, const std::string& part) {
  expect_contains(message_of<Error>(call), part);
}

// The text with the first `from` replaced, which must be there.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace qkv::test
