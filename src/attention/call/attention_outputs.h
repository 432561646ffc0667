// Where attention() writes, after it was checked: the output and the optional outputs.
#pragma once

#include <vector>

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

  // Sorted by sequence, head and query.
  const std::vector<ChosenRow>& chosen_rows() const { return chosen_rows_; }
  static std::size_t chosen_rows_bytes(const AttentionExtras& extras);

  void set(CommonTask& common) const;
  // Of head h of sequence b.
  void set(AttentionTask& task, const AttentionInputs& inputs, std::int64_t b, std::int64_t h) const;

 private:
  void set_chosen_rows(const AttentionInputs& inputs, const TensorView& rows);
  void check_statistics(const AttentionInputs& inputs, const AttentionExtras& extras);

  MutableTensorView out_, log_sum_exp_, weights_, logits_, row_weights_;
  std::vector<ChosenRow> chosen_rows_;
  Tensor own_log_sum_exp_;
  MutableTensorView row_maximum_, entropy_, top_keys_, top_weights_, received_, block_weights_;
};

}  // namespace qkv::inline attending
