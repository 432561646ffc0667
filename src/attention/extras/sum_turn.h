// The order in which blocks of queries add their weights to the sums of their head (weight_sums.h), as kernels see it.
#pragma once

#include <cstdint>

#include "attention/tile/attention_task.h"

namespace qkv::inline attending {

// A block's turn to add its weights, of a task that was begun.
class SumTurn {
 public:
  SumTurn(const AttentionTask& task, std::int64_t block) : task_(task), block_(block) {}

  // Before those of keys first <= j < last: all in front of them are added.
  void reach(std::int64_t first, std::int64_t last);
  void finish();

 private:
  void wait_up_to(std::int64_t segment);
  void leave_up_to(std::int64_t segment);

  const AttentionTask& task_;
  const std::int64_t block_;
  std::int64_t reached_ = 0, left_ = 0;  // segments
};

}  // namespace qkv::inline attending
