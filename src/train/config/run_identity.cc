// Compares what two trainings' weights depend on.
#include "train/config/run_identity.h"

#include <fmt/format.h>

#include <set>

#include "core/refuse.h"
#include "io/files/byte_source.h"
#include "models/folder_tensors.h"
#include "qkv/files.h"

namespace qkv::training {
namespace {

using Values = std::map<std::string, std::string>;

template <class T>
std::string text(T value) {
  return fmt::format("{}", value);
}

std::string checksum(const ExampleSet& examples) { return fmt::format("{:08x}", examples.checksum()); }

std::vector<Change> differences(const Values& before, const Values& now) {
  std::set<std::string> names;
  for (const Values* values : {&before, &now}) {
    for (const auto& [name, value] : *values) names.insert(name);
  }
  const auto value = [](const Values& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? "nothing" : found->second;
  };
  std::vector<Change> found;
  for (const std::string& name : names) {
    const std::string old_value = value(before, name), new_value = value(now, name);
    if (old_value != new_value) found.push_back({name, old_value, new_value});
  }
  return found;
}

}  // namespace

std::string checksum_of_weights(const std::string& folder) {
  std::uint32_t sum = io::crc32({});
  for (const std::string& file : weight_files(folder)) sum = io::crc32(read_file(file), sum);
  return fmt::format("{:08x}", sum);
}

RunIdentity identity_of(const TrainingConfig& config, const ExampleSet& train, const ExampleSet& valid,
                        const TrainingOptions& options) {
  RunIdentity identity{.fixed = options.identity, .settings = options.settings, .patience = config.patience};
  identity.fixed.insert(
      {{"seed", text(config.seed)}, {"training data", checksum(train)}, {"validation data", checksum(valid)}});
  identity.settings.insert({{"batch_tokens", text(config.batch_tokens)},
                            {"accumulate", text(config.accumulate)},
                            {"optimizer", config.adam.decay == WeightDecay::in_gradient ? "adam" : "adamw"},
                            {"beta1", text(config.adam.beta1)},
                            {"beta2", text(config.adam.beta2)},
                            {"epsilon", text(config.adam.epsilon)},
                            {"weight_decay", text(config.adam.weight_decay)},
                            {"rate", text(config.schedule.rate)},
                            {"schedule", config.schedule.decay == Decay::inverse_sqrt ? "inverse_sqrt" : "cosine"},
                            {"warmup", text(config.schedule.warmup)},
                            {"clip", text(config.clip)},
                            {"validate_every", text(config.validate_every)},
                            {"average", text(config.average)}});
  return identity;
}

std::vector<Change> changes_of(const RunIdentity& before, const RunIdentity& now, std::int64_t step,
                               const std::string& checkpoint) {
  Values old_fixed = before.fixed, new_fixed = now.fixed;
  if (!old_fixed.contains(kVocabKey) || !new_fixed.contains(kVocabKey)) {
    old_fixed.erase(kVocabKey);
    new_fixed.erase(kVocabKey);
  }
  if (const std::vector<Change> others = differences(old_fixed, new_fixed); !others.empty()) {
    refuse_path(checkpoint, "belongs to another training ({}); train into another folder", to_text(others));
  }
  std::vector<Change> changes = differences(before.settings, now.settings);
  const bool rates_differ = now.settings.at("schedule") == "cosine" && now.steps != before.steps;
  if (rates_differ || now.steps < step) changes.push_back({"steps", text(before.steps), text(now.steps)});
  const bool less_patient = now.patience != 0 && (before.patience == 0 || now.patience < before.patience);
  if (less_patient) changes.push_back({"patience", text(before.patience), text(now.patience)});
  return changes;
}

std::string to_text(const std::vector<Change>& changes) {
  std::string list;
  for (const Change& change : changes) {
    list += fmt::format("{}{} {} -> {}", list.empty() ? "" : ", ", change.name, change.before, change.now);
  }
  return list;
}

}  // namespace qkv::training
