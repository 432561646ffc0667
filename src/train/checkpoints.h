// The checkpoints of a training, one folder for a step: weights, the optimizer's moments, and where the loop is. Each
// appears whole or not at all (atomic_folder.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/adam.h"
#include "qkv/training.h"

namespace qkv::training {

// Where the loop is, and what it has counted.
struct LoopState {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // counted from 0
  std::int64_t batch = 0;  // the next one of this epoch
  LossSum since_log{};
  double best_loss = 0;
  std::int64_t best_step = 0;  // 0: not validated yet
  std::int64_t waits = 0;      // validations since the best one
};

class Checkpoints {
 public:
  // `identity` says what is trained, and on what; checkpoints of another one are refused. Those of every `period` steps
  // count, the last `kept` of them stay.
  Checkpoints(std::string folder, std::string identity, std::int64_t period, std::int64_t kept);

  void save(const Trainable& model, const Adam& adam, const LoopState& state) const;
  // Restores the newest one that is whole, and removes what is newer or unfinished; nothing where there is none.
  // `notice` hears of those that are damaged. std::invalid_argument if it is of another training.
  std::optional<LoopState> restore(Trainable& model, Adam& adam,
                                   const std::function<void(const std::string&)>& notice) const;
  // Sets the model's weights to the mean of those of the last `kept` checkpoints that count.
  void average(Trainable& model) const;

 private:
  std::string path_of(std::int64_t step) const;
  std::vector<std::int64_t> steps() const;  // ascending
  std::vector<std::int64_t> counted() const;
  void remove(std::int64_t step) const;

  std::string folder_, identity_;
  std::int64_t period_, kept_;
};

}  // namespace qkv::training
