// Sums of the weights of a head over its queries: what each key receives, and averages over parts of the matrix. They
// are kept in double, since millions of weights may add up to one number, and rounded once, when all are there. Blocks
// of queries add to them in order, whichever threads compute them: each follows the one before it, through segments of
// the keys, so that as many may be at work as there are segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/tile/attention_task.h"
#include "core/ordered_sum.h"

namespace qkv::inline attending {

// What the sums of a call take.
struct WeightSumSizes {
  WeightSumSizes() = default;
  // `longest`: a task with the most keys; `all_heads`: of all sequences.
  WeightSumSizes(const AttentionTask& longest, std::int64_t all_heads);

  std::size_t bytes(int threads) const;

  std::int64_t heads = 0, numbers = 0, segments = 0;  // the last two of a head
};

class WeightSums {
 public:
  WeightSums(const WeightSumSizes& sizes, std::int64_t heads_of_sequence, int threads);

  // `task` with memory for sums in place of where it asks for them: `received`, of each key, and `block_weights`, of
  // each part, [block_rows][block_columns]. Tasks of a head begin in order, after those of the heads before it; the
  // first one waits for memory.
  AttentionTask begin(const AttentionTask& task, bool is_first);
  // After the last one of a head: writes them where `task` asks for them.
  void end(const AttentionTask& task);
  // One that was begun will not end.
  void abandon() { order_.abandon(); }

 private:
  friend class SumTurn;
  std::int64_t index_of(const AttentionTask& task) const { return task.sequence * heads_of_sequence_ + task.head; }
  std::int64_t site_of(std::int64_t head) const { return head * (sizes_.segments + 1); }  // of its first segment
  double* memory_of(const AttentionTask& task) { return sums_.data() + index_of(task) % at_once_ * sizes_.numbers; }

  const WeightSumSizes sizes_;
  const std::int64_t heads_of_sequence_, at_once_;  // heads that have memory
  std::vector<double> sums_;
  OrderedSums order_;  // of each head: its segments, and whether it is written
};

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
