// The few queries of heads that share keys and values, attended as those of one head: each head's alone would leave
// most of a block empty and read the keys again. No row's bits depend on its neighbours, so none change.
#pragma once

#include "attention/call/attention_call.h"
#include "attention/forward/forward_kernel.h"

namespace qkv::inline attending {

class FoldedHeads {
 public:
  FoldedHeads() = default;  // none is folded
  // The call's outputs are set, and no statistics are asked for. `longest`: with the most queries and keys of its
  // sequences; `block_queries`: of ForwardPlan; `threads`: that there are to be blocks for.
  FoldedHeads(const AttentionCall& call, const AttentionTask& longest, std::int64_t block_queries,
              std::int64_t threads);

  // Heads of a group that are attended together where a sequence has `q_len` queries; 1: each by itself.
  std::int64_t together(std::int64_t q_len) const;
  // Whether a task's head is the first of them.
  bool leads(const AttentionTask& task) const { return task.head % group_ % together(task.q_len) == 0; }

  // How many a task's head leads, itself among them.
  std::int64_t led_by(const AttentionTask& task) const;

  // Those that `first` leads. `scratch`: scratch_bytes(), else as for attend_forward(), which has the beginning.
  void attend(const AttentionCall& call, const AttentionTask& first, const QueryBlock& next, ScratchRoom scratch,
              const KeyPart& keys = {}) const;

  std::size_t scratch_bytes() const { return block_bytes_ + row_bytes_; }

 private:
  std::int64_t group_ = 1;  // query heads that share keys and values
  std::int64_t most_ = 1;   // of them together, so that there is work for all threads
  std::int64_t block_queries_ = 0;
  std::size_t block_bytes_ = 0, row_bytes_ = 0;  // of scratch: a block's, and copies of its rows behind
};

}  // namespace qkv::inline attending
