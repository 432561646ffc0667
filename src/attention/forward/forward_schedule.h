// How a call of attention() is carried out, decided before anything runs: attention() follows it, plan() reports it.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/call/attention_call.h"
#include "attention/call/key_split.h"
#include "attention/extras/weight_sums.h"
#include "attention/forward/folded_heads.h"
#include "attention/forward/forward_kernel.h"
#include "attention/single_query/single_query_kernel.h"

namespace qkv::inline attending {

// One unit per key/value head of a sequence of one query.
struct SingleQuerySchedule {
  SingleQueryPlan kernel;
  std::int64_t group = 0;  // query heads of a unit
  KeySplit split;          // of units
};

// A block of queries whose keys several threads may take.
struct SplitBlock {
  std::int64_t sequence, head;  // where heads are folded, the first of them
  std::int64_t begin, end;      // queries of a head
  std::int64_t rows;            // of all heads
  std::int64_t first_chunk;     // that one of them sees
};

struct AttentionSchedule {
  // Of a call with these outputs. std::invalid_argument if the memory limit cannot be kept.
  AttentionSchedule(const AttentionCall& call, const AttentionExtras& extras);

  bool empty = false;  // no query, or no head
  bool sums = false;   // over queries: blocks of a head come in order
  WeightSumSizes sum_sizes;
  bool statistics = false;  // single queries, too, go through the blocks for what is asked of their weights
  std::vector<std::int64_t> single_queries, prefills;  // sequences of one query; those that go through blocks
  int threads = 1;                                     // that the work is worth waking for, and the memory limit allows
  int allowed_threads = 1;                             // as many as asked for, or as the memory limit allows
  MemoryCount memory;                                  // of what was made of the arguments

  ForwardPlan block{};            // of prefill
  FoldedHeads folded;             // which heads share one
  std::int64_t task_queries = 0;  // one block or several
  std::int64_t tasks_per_head = 0;
  std::int64_t tasks = 0;  // for the threads to take: the above of all heads of these sequences
  bool may_split = false;  // nothing is asked for but outputs and their log-sum-exp, and keys are many
  std::vector<SplitBlock> split_blocks;
  KeySplit split;  // of these, taken instead of tasks where its wave() is not 0
  // Chosen rows are attended once more: where in their order those of each block begin, and their end; or nothing.
  std::vector<std::int64_t> chosen_blocks;
  std::size_t row_bytes = 0;  // of scratch for a block of them
  SingleQuerySchedule single_query;

  // Queries begin <= i < end of a head's task, of q_len.
  struct Queries {
    std::int64_t begin, end;
  };
  Queries queries_of(std::int64_t task, std::int64_t q_len) const;

  // Threads that have something to do.
  int busy_threads() const;
  // The most that the call allocates at a time.
  std::size_t workspace() const { return memory.most_with(pass_bytes(threads)); }

 private:
  std::size_t pass_bytes(int with_threads) const;
  void fold_heads(const AttentionCall& call, const AttentionTask& longest);
  void list_split_blocks(const AttentionCall& call);
  void list_chosen_blocks(const std::vector<ChosenRow>& rows);
};

}  // namespace qkv::inline attending
