// The checkpoints of a training, one folder for a step: weights, the optimizer's moments, where the loop is, and what
// training it is. Each appears whole or not at all (atomic_folder.h).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "io/files/descriptor.h"
#include "qkv/train/adam.h"
#include "qkv/train/training.h"
#include "train/config/run_identity.h"

namespace qkv::training {

// Where the loop is, and what it has counted.
struct LoopState {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // counted from 0
  std::int64_t batch = 0;  // the next one of this epoch
  LossSum since_log{};
  double best_loss = 0;
  std::optional<double> best_metric{};
  std::int64_t best_step = 0;  // 0: not validated yet
  std::int64_t waits = 0;      // validations since the best one
  bool unvalidated = false;    // the step has a validation that is still to come: it was stopped
};

struct Checkpoint {
  std::string path{};
  LoopState state{};
  RunIdentity identity{};
};

// Reads state.json of a checkpoint's folder. FormatError for values that no training writes.
Checkpoint read_state(const std::string& folder);

class Checkpoints {
 public:
  // Whether a folder of trainings has any, whole or not. It may be missing.
  static bool exist(const std::string& folder);

  // Makes the folder and locks it while this object lives; IoError if another process uses it. Keeps, of the
  // checkpoints at multiples of `period`, the `kept` last ones and the `kept` that end at the best one, of others only
  // the best. `notice` is called for damaged ones.
  Checkpoints(const std::string& folder, std::int64_t period, std::int64_t kept,
              std::function<void(const std::string&)> notice);

  void save(const Trainable& model, const Adam& adam, const LoopState& state, const RunIdentity& identity) const;

  // Newest intact checkpoint; nullopt if there are none; FormatError if all are damaged.
  std::optional<Checkpoint> newest() const;
  void restore(const Checkpoint& from, Trainable& model, Adam& adam) const;
  // Removes newer checkpoints than this step, and unfinished ones.
  void remove_after(std::int64_t step) const;

  // Steps of those that end at `last`, at most `kept`: those that are whole.
  std::vector<std::int64_t> ending_at(std::int64_t last) const;
  // Sets the model's weights to the mean of those of these steps.
  void average(const std::vector<std::int64_t>& steps, Trainable& model) const;

 private:
  std::string path_of(std::int64_t step) const;
  std::vector<std::int64_t> counted_until(std::int64_t last) const;
  bool is_whole(std::int64_t step) const;
  void remove(std::int64_t step) const;

  std::string folder_;
  std::int64_t period_, kept_;
  std::function<void(const std::string&)> notice_;
  io::Descriptor lock_;
};

// std::invalid_argument if `out` has one of the files but no checkpoints that a training could go on from; one that
// `is_input` may be there.
void expect_own_files(const std::string& out, std::initializer_list<const char*> names,
                      const std::function<bool(const std::string& path)>& is_input = {});

}  // namespace qkv::training
