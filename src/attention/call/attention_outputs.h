// Where attention() writes, after it was checked: the output and the optional outputs.
#pragma once

#include "attention/call/attention_inputs.h"

namespace qkv::inline attending {

class AttentionOutputs {
 public:
  // std::invalid_argument, naming sizes, for views that do not fit.
  AttentionOutputs(const AttentionInputs& inputs, const MutableTensorView& out, const AttentionExtras& extras);

  // A log-sum-exp of its own, if none was asked for.
  static std::size_t log_sum_exp_bytes(const AttentionInputs& inputs);
  void add_log_sum_exp(const AttentionInputs& inputs);
  bool has_log_sum_exp() const { return static_cast<bool>(log_sum_exp_); }
  // Rows of weights or logits are asked for.
  bool has_planes() const { return weights_ || logits_; }

  // What row i of row_weights belongs to.
  struct ChosenRow {
    std::int64_t sequence, head, query;
  };
  ChosenRow chosen_row(std::int64_t i) const;
  static std::size_t chosen_rows_bytes(const AttentionExtras& extras);

  void set(CommonTask& common) const;
  // Of head h of sequence b.
  void set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h) const;

 private:
  void check_chosen_rows(const AttentionInputs& inputs, const MutableTensorView& row_weights) const;
  void check_statistics(const AttentionInputs& inputs, const AttentionExtras& extras);

  MutableTensorView out_, log_sum_exp_, weights_, logits_;
  Tensor chosen_rows_;  // a copy: the caller's memory may change after it was checked
  Tensor own_log_sum_exp_;
  MutableTensorView row_maximum_, entropy_, top_keys_, top_weights_, received_, block_weights_;
};

}  // namespace qkv::inline attending
