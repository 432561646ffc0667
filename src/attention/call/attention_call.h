// A call of attention() after every argument was checked: inputs, rules, outputs and what they take in memory, the task
// of each head, and the kernel that computes it. Forward, backward and tangents begin here; nothing is added to it
// later.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/call/attention_inputs.h"
#include "attention/call/attention_rules.h"
#include "attention/call/output_kinds.h"
#include "attention/tile/attention_task.h"
#include "qkv/attention.h"

namespace qkv::inline attending {

// Which outputs a task has: all; the statistics, which single queries have from blocks; or those of chosen rows.
enum class TaskOutputs { all, statistics, chosen_rows };

// Where attention() writes, after it was checked: the output and the optional outputs.
class AttentionOutputs {
 public:
  // std::invalid_argument, naming sizes, for views that do not fit.
  AttentionOutputs(const AttentionInputs& inputs, const MutableTensorView& out, const AttentionExtras& extras,
                   MemoryCount& memory);

  // A log-sum-exp of its own, if none was asked for: by it rows without keys are found.
  void need_log_sum_exp(const AttentionInputs& inputs, MemoryCount& memory);
  // Rows of weights or logits are asked for.
  bool has_planes() const { return has_planes_; }

  // Sorted by sequence, head and query.
  const std::vector<ChosenRow>& chosen_rows() const { return chosen_rows_; }

  void set(CommonTask& common) const;
  // Those of `wanted`, of head h of sequence b.
  void set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h,
           TaskOutputs wanted) const;

 private:
  void set_chosen_rows(const AttentionInputs& inputs, const TensorView& rows, MemoryCount& memory);

  MutableTensorView out_;
  // In the order of attention_outputs(), which begins with log-sum-exp, and in the form of the inputs.
  std::array<MutableTensorView, kOutputCount> views_;
  bool has_planes_ = false;
  std::vector<ChosenRow> chosen_rows_;
  Tensor own_log_sum_exp_;
};

class AttentionCall : public AttentionInputs {
 public:
  // Of a pass that is given its own outputs, or of attention(). std::invalid_argument, naming sizes, for whatever does
  // not fit (see attention.h). Stopped if a scope asks for it: blocks are made of boolean masks.
  AttentionCall(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options);
  AttentionCall(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                const MutableTensorView& out, const AttentionExtras& extras);
  AttentionCall(const AttentionCall&) = delete;  // tasks have the address of common_

  const CommonTask& common() const { return common_; }
  // Head h of sequence b. It refers to this call.
  AttentionTask task(std::int64_t b, std::int64_t h, TaskOutputs wanted = TaskOutputs::all) const;
  // The same in place, of a task without anything: in small calls copies count.
  void set(AttentionTask& task, std::int64_t b, std::int64_t h, TaskOutputs wanted = TaskOutputs::all) const;
  // One of so many queries and the most keys, to plan with.
  AttentionTask longest(std::int64_t queries) const;

  // A query that is alone in its sequence has a kernel of its own if its score is a dot product.
  bool is_single_query(std::int64_t b) const { return is_alone(query_length(b)); }

  const std::vector<ChosenRow>& chosen_rows() const { return outputs_->chosen_rows(); }

  // Whether heads of a group differ in their queries alone, and each query gives an output and its log-sum-exp only.
  bool may_fold_heads() const;

  // Those of the threads that a pass is worth waking for, which makes `products` of each query and key.
  int useful_threads(double products) const;

  Precision precision = Precision::exact;  // of prefill: what was asked for, if there is a kernel for it
  EmptyRows empty_rows = EmptyRows::zero;

 private:
  void set_score(const Score& score);
  bool is_alone(std::int64_t queries) const { return queries == 1 && is_dot_product(common_.score); }
  void choose_kernel(AttentionTask& task) const;

  LogitFunction logit_function_;
  AttentionRules rules_;
  CommonTask common_;
  std::optional<AttentionOutputs> outputs_;
};

inline constexpr std::int64_t kMostReducedDim = 512;  // of heads and values: a thread stays below 1 MiB

// Empty if the selected target of this CPU has a kernel for several queries that multiplies in bf16; else the reason, a
// line.
std::string why_not_reduced(const AttentionInputs& inputs, const AttentionOptions& options);

}  // namespace qkv::inline attending
