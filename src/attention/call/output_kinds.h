// What there is to know of each optional output of attention(), said once: its name and place, what it has an element
// for, what it costs. Checks, tasks, schedules, commands and the Python package go by it, and so do the tests.
#pragma once

#include <span>

#include "qkv/attention.h"

namespace qkv::inline attending {

struct AttentionTask;
struct OutputRows;

// What it has an element for: rows of weights; keys; pairs of both; the keys of a row's largest weights; blocks of
// pairs; pairs of the chosen rows.
enum class OutputOf { rows, keys, pairs, top, blocks, chosen };

// A row of weights and logits in doubles, whose query is at `position` of the keys; the weight of the sink, and the
// log-sum-exp.
struct RowInDoubles {
  std::span<const double> weights, logits;
  double position = 0, sink_weight = 0, log_sum_exp = 0;
};

struct OutputDescription {
  const char* name;  // of the view
  MutableTensorView AttentionExtras::* view;
  OutputRows AttentionTask::* rows;  // nullptr: block_weights
  OutputOf of;
  bool is_statistic;       // of the blocks of queries, which single queries go through, too
  bool needs_second_pass;  // over the keys
  bool is_index;           // i64, else of the accumulation's type
  const char* help;
  double (*of_row)(const RowInDoubles& row);  // of `rows`: what it is
};

inline constexpr std::size_t kOutputCount = 12;
std::span<const OutputDescription, kOutputCount> attention_outputs();

}  // namespace qkv::inline attending
