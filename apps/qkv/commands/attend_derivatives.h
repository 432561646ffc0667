// Gradients, tangents and second gradients on the command line of `attend`.
#pragma once

#include <functional>
#include <vector>

#include "inputs/array_files.h"
#include "inputs/call_options.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::app {

// A forward pass: its outputs are allocated before it runs, and filled after it.
struct ForwardPass {
  TensorView query{}, key{}, value{}, out{}, log_sum_exp{};
  AttentionOptions options{};
};

class AttendDerivatives {
 public:
  AttendDerivatives(Command& command, ArrayFiles& files, CallOptions& rules);

  // UsageError for options that do not go together.
  void check() const;
  bool asked_for() const { return grad_out_.given() || has_tangent(); }
  void read(Dtype accumulation);

  // To call before anything is computed.
  void allocate(ArrayFiles& files, const ForwardPass& forward);
  void compute(const ForwardPass& forward) const;

 private:
  // An output, its view while it is computed, and the array whose shape it has.
  struct Output {
    const ArrayOption& option;
    MutableTensorView& view;
    std::function<TensorView(const ForwardPass&)> like;
  };
  static const ArrayOption* first_given(const std::vector<Output>& outputs);
  bool has_tangent() const { return tangent_query_.given() || tangent_key_.given() || tangent_value_.given(); }

  CallOptions& rules_;
  AttentionGradients gradients_{};
  MutableTensorView alibi_slopes_{};
  AttentionOutputTangents output_tangents_{};
  AttentionSecondGradients second_gradients_{};
  // In the order of the help.
  InputArray& grad_out_;
  std::vector<Output> first_;
  ArrayOption& grad_bias_;
  std::vector<Output> score_, tangents_;
  InputArray &tangent_query_, &tangent_key_, &tangent_value_;
  std::vector<Output> second_;
};

}  // namespace qkv::app
