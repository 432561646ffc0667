// Gradients, tangents and second gradients on the command line of `attend`.
#pragma once

#include "array_files.h"
#include "attend_rules.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::app {

// A forward pass: its places are there before it runs, its results after it.
struct ForwardPass {
  TensorView query{}, key{}, value{}, out{}, log_sum_exp{};
  AttentionOptions options{};
};

class AttendDerivatives {
 public:
  AttendDerivatives(CLI::App& command, ArrayFiles& files, AttendRules& rules);

  // UsageError for options that do not go together.
  void check() const;
  bool asked_for() const { return grad_out_.given() || has_tangent(); }
  void read(Dtype accumulation);

  // To call before anything is computed.
  void place(ArrayFiles& files, const ForwardPass& forward);
  void compute(const ForwardPass& forward) const;

 private:
  std::vector<const ArrayOption*> first_outputs() const;
  bool has_tangent() const { return tangent_query_.given() || tangent_key_.given() || tangent_value_.given(); }

  AttendRules& rules_;
  InputArray& grad_out_;
  ArrayOption &grad_query_, &grad_key_, &grad_value_, &grad_alibi_, &grad_sinks_, &grad_bias_;
  ArrayOption &grad_score_w_query_, &grad_score_w_key_, &grad_score_v_, &grad_score_w_;
  ArrayOption &tangent_out_, &tangent_log_sum_exp_;
  InputArray &tangent_query_, &tangent_key_, &tangent_value_;
  ArrayOption &second_query_, &second_key_, &second_value_, &second_out_;
  AttentionGradients gradients_{};
  AttentionOutputTangents moved_{};
  AttentionSecondGradients second_{};
};

}  // namespace qkv::app
