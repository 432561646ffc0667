// Any bytes as the state of a checkpoint: no number of it is negative.
#include "reader.h"
#include "train/checkpoints.h"

void read(std::string_view bytes) {
  const qkv::training::Checkpoint found = qkv::training::read_state(qkv::fuzz::folder_with("state.json", bytes));
  const qkv::training::LoopState& state = found.state;
  for (const std::int64_t count : {state.step, state.epoch, state.batch, state.since_log.count, state.best_step,
                                   state.waits, found.identity.steps, found.identity.patience}) {
    if (count < 0) __builtin_trap();
  }
}
