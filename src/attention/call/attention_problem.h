// A call of attention() after every argument was checked: what all heads have in common, the task of each head, and the
// kernel that computes it. Forward, backward and tangents begin here.
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
  AttentionOutputs(const AttentionInputs& inputs, const MutableTensorView& out, const AttentionExtras& extras);

  // A log-sum-exp of its own, if none was asked for.
  static std::size_t log_sum_exp_bytes(const AttentionInputs& inputs);
  void add_log_sum_exp(const AttentionInputs& inputs);
  bool has_log_sum_exp() const { return static_cast<bool>(views_[0]); }
  // Rows of weights or logits are asked for.
  bool has_planes() const { return has_planes_; }

  // Sorted by sequence, head and query.
  const std::vector<ChosenRow>& chosen_rows() const { return chosen_rows_; }
  static std::size_t chosen_rows_bytes(const AttentionExtras& extras);

  void set(CommonTask& common) const;
  // Those of `wanted`, of head h of sequence b.
  void set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h,
           TaskOutputs wanted) const;

 private:
  void set_chosen_rows(const AttentionInputs& inputs, const TensorView& rows);

  MutableTensorView out_;
  // In the order of attention_outputs(), which begins with log-sum-exp, and in the form of the inputs.
  std::array<MutableTensorView, kOutputCount> views_;
  bool has_planes_ = false;
  std::vector<ChosenRow> chosen_rows_;
  Tensor own_log_sum_exp_;
};

class AttentionProblem : public AttentionInputs {
 public:
  // Of a pass that is given its own outputs, or of attention(). std::invalid_argument, naming sizes, for whatever does
  // not fit (see attention.h).
  AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options);
  AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                   const MutableTensorView& out, const AttentionExtras& extras);
  AttentionProblem(const AttentionProblem&) = delete;  // tasks have the address of common_

  // What boolean masks hide of whole blocks, where that is not known and is of use: one query alone reads a row of
  // bytes. Stopped if a scope asks for it.
  void compile_mask(int threads) { rules_.compile_booleans(*this, threads); }

  // What its forward pass needs besides: compiled masks, and a log-sum-exp where rows without keys are to be found and
  // none was asked for. After the memory that this takes was compared with the limit.
  void complete(int threads);

  const CommonTask& common() const { return common_; }
  // Head h of sequence b. It refers to this problem.
  AttentionTask task(std::int64_t b, std::int64_t h, TaskOutputs wanted = TaskOutputs::all) const;
  // The same in place, of a task without anything: in small calls copies count.
  void set(AttentionTask& task, std::int64_t b, std::int64_t h, TaskOutputs wanted = TaskOutputs::all) const;

  const std::vector<ChosenRow>& chosen_rows() const { return outputs_->chosen_rows(); }

  // Whether heads of a group differ in their queries alone, and each query gives an output and its log-sum-exp only.
  bool may_fold_heads() const;

  Precision precision = Precision::exact;  // of prefill: what was asked for, if there is a kernel for it
  EmptyRows empty_rows = EmptyRows::zero;

 private:
  void set_score(const Score& score);
  bool needs_log_sum_exp() const;

  LogitFunction logit_function_;
  AttentionRules rules_;
  CommonTask common_;
  std::optional<AttentionOutputs> outputs_;
};

// The threads that were asked for, or the default: of every pass.
int threads_of(const AttentionOptions& options);

// Those of them that the work of a pass is worth waking for, which makes `products` of each query and key.
int useful_threads(const AttentionProblem& problem, int threads, double products);

// Sets the kernel of a task whose rules are set, its precision (`asked` where there is a kernel for it), what
// multiplies in blocks and whether its logits are plain. A query that is alone in its sequence has a kernel of its own
// if its score is a dot product.
void choose_kernel(AttentionTask& task, Precision asked);

inline constexpr std::int64_t kMostReducedDim = 512;  // of heads and values: a thread stays below 1 MiB

// Empty if the selected target of this CPU has a kernel for several queries that multiplies in bf16; else the reason, a
// line.
std::string why_not_reduced(Dtype storage, Score::Kind score, std::int64_t key_dim, std::int64_t value_dim);

}  // namespace qkv::inline attending
