// The gradients of bias views: sums of the gradients of logits over the dimensions that a view broadcasts along. Tasks
// add to a view's elements in the order of tasks, so that the sums have the same bits for any number of threads.
//
// A task is one chunk of keys of one key/value head of one sequence; it takes the query heads of the group one after
// the other, and the blocks of queries from the last to the first. Where the view has elements of its own for each
// query, the task waits for its predecessors before each block, and the kernel adds to the view itself. Where the view
// broadcasts along queries, the kernel adds to sums of this head, and the task waits for its predecessors at the end of
// the head.
#pragma once

#include <optional>
#include <vector>

#include "attention/backward/backward_kernel.h"
#include "attention/call/attention_call.h"
#include "core/ordered_sum.h"
#include "qkv/attention/attention_backward.h"

namespace qkv::inline attending {

class BiasGradients {
 public:
  // std::invalid_argument if the gradients do not fit the views of the bias.
  BiasGradients(const AttentionCall& call, const Bias& bias, const std::vector<MutableTensorView>& gradients);

  void clear() const;
  // Deals the ordered_sums, before the first task.
  void begin(std::int64_t blocks, std::int64_t chunks);
  void abandon() { ordered_sums_->abandon(); }
  // Bytes that a thread needs for the sums of a head, and those of begin().
  std::size_t sum_bytes() const;
  std::size_t ordered_sum_bytes(std::int64_t blocks, std::int64_t chunks) const;

  // One query head of a task, `member` of its group.
  struct Head {
    std::int64_t task, sequence, head, member;
    std::int64_t chunk, keys;  // the first key, and how many there are
    std::byte* sums;
  };
  void begin_head(const Head& head) const;
  void begin_block(const Head& head, std::int64_t block, BackwardTask& task) const;
  void end_block(const Head& head, std::int64_t block);
  void end_head(const Head& head);

 private:
  struct Share {
    std::int64_t site = 0;  // the first one of a plane; it has one for each block of queries
    std::int32_t predecessors = 0;
  };
  std::size_t tasks_and_members(std::int64_t chunks) const;
  const Share& share(const Head& head, std::size_t n) const;
  Plane plane(const Head& head, std::size_t n) const;

  const AttentionCall& call_;
  std::vector<MutableTensorView> given_;
  std::vector<TensorView> views_;  // the same as [batch dimensions ..., heads, q_len, k_len]; stride 0: broadcasts
  std::vector<Share> share_of_;    // [task][member][view]
  std::optional<OrderedSums> ordered_sums_;
};

}  // namespace qkv::inline attending
