// Convolutions over sequences, as torch.nn.Conv1d (cross-correlations), with channels last: an output is
//   out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t * stride + k * dilation - padding, c]
// where x outside of its sequence is 0. With groups, outputs and inputs are cut into as many equal ranges of channels,
// and outputs see the inputs of their range alone. Source: LeCun et al., "Gradient-based learning applied to document
// recognition" (1998); causal and dilated: van den Oord et al., "WaveNet" (2016).
//
// Sequences are [batch, length, channels] or ragged rows [tokens, channels]: none sees another one. Weights have
// torch's names and layouts. Where no window fits, or there is nothing but padding, the output is empty; torch refuses
// such inputs.
//
//   Conv1d conv({.in = 256, .out = 256, .kernel = 3, .causal = true}, weights, "conv1.");
//   Tensor y = conv.forward({x, offsets});                                         // causal: as long as x
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"
#include "qkv/matmul.h"

namespace qkv {

struct Conv1dConfig {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros at both ends
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  // divides in and out
  bool bias = true;
  bool causal = false;  // (kernel - 1) * dilation zeros at the beginning alone: out[t] sees x[<= t * stride]
};

// Safe for concurrent forward(); only update() and backward() modify it.
class Conv1d {
 public:
  // Takes weight [out, in / groups, kernel] and bias [out].
  Conv1d(const Conv1dConfig& config, Weights& weights, const std::string& scope = "");

  const Conv1dConfig& config() const { return config_; }
  std::int64_t out_length(std::int64_t length) const;
  // The offsets of what forward makes of ragged rows with these.
  Tensor out_offsets(const TensorView& offsets) const;

  // [batch, length, in] -> [batch, out_length, out], or ragged [tokens, in] -> [out tokens, out]. threads as in
  // MatmulOptions. The result of a sequence has the same bits in any batch and on any threads.
  Tensor forward(const Sequences& x, int threads = 0) const;

  // From the input of forward and the gradient of its output: adds to the gradients of the parameters that want them,
  // and to grad_x, row-major of x's shape, if it is given.
  void backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  class Windows;
  template <class T>
  class Backward;

  std::int64_t group_in() const { return config_.in / config_.groups; }
  std::int64_t group_out() const { return config_.out / config_.groups; }
  std::int64_t depth() const { return config_.kernel * group_in(); }
  // The part of [..., out] or [out] that is a group's.
  template <class View>
  View outputs_of(const View& all, std::int64_t group) const;
  // The weight of a group as [group_out, depth], tap after tap.
  Tensor matrix(std::int64_t group) const;
  void add_weight_gradient(std::int64_t group, const Tensor& gradient);
  void pack();

  Conv1dConfig config_;
  WeightStorage storage_;
  Parameter weight_, bias_;
  std::vector<PackedMatrix> parts_;  // of each group: windows [n, depth] -> outputs [n, group_out]
};

}  // namespace qkv
