// The dependencies of a training's weights, from the parsed config: decides whether a call may resume from the
// checkpoints of another.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "qkv/train/training.h"

namespace qkv::training {

// Values by name, as text that reads back to the same value.
struct RunIdentity {
  std::map<std::string, std::string> fixed{};     // must be as they were
  std::map<std::string, std::string> settings{};  // may be others where the caller says so
  std::int64_t steps = 0;                         // at which the training ends
  std::int64_t patience = 0;
};

// All but the steps, which depend on where the training is.
RunIdentity identity_of(const TrainingConfig& config, const ExampleSet& train, const ExampleSet& valid,
                        const TrainingOptions& options);

// Settings of a config that may change, besides those of its TrainingConfig.
template <class Config>
std::map<std::string, std::string> settings_of(const Config& config) {
  std::map<std::string, std::string> settings{{"dropout", fmt::format("{}", config.dropout)},
                                              {"label_smoothing", fmt::format("{}", config.label_smoothing)}};
  if (config.training.precision != Precision::exact) {  // checkpoints of before it was a key go on
    settings["precision"] = name_of(config.training.precision);
  }
  return settings;
}

template <class Number>
std::string as_identity(Number number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

// The checksum of a folder's weights.
std::string checksum_of_weights(const std::string& folder);

struct Change {
  std::string name, before, now;
};

// In `fixed` where a vocabulary is learned: its size in the config. A tokenizer that is given has none, so it is
// compared only where both trainings have it; whether the tokenizer is the same one is known by its checksum.
inline constexpr const char* kVocabKey = "tokenizer.vocab";

// What `now` changes of the settings of a training that has come to `step`. std::invalid_argument, naming `checkpoint`,
// if what must not change has.
std::vector<Change> changes_of(const RunIdentity& before, const RunIdentity& now, std::int64_t step,
                               const std::string& checkpoint);

// "rate 0.1 -> 0.2, clip 1 -> 0"
std::string to_text(const std::vector<Change>& changes);

}  // namespace qkv::training
