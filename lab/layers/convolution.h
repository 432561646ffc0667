// Convolutions over sequences, as torch.nn.Conv1d (cross-correlations), with channels last: an output is
//   out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t + k * dilation, c]
// for each window that fits; causal: of x with (kernel - 1) * dilation zeros before it, so that out[t] sees x[<= t].
// Source: LeCun et al., "Gradient-based learning applied to document recognition" (1998); causal and dilated: van den
// Oord et al., "WaveNet" (2016).
//
// Sequences are [batch, length, channels] or ragged rows [tokens, channels]: none sees another one. Weights have
// torch's names and layouts. Where no window fits, the output is empty; torch refuses such inputs.
//
//   Conv1d conv({.in = 256, .out = 256, .kernel = 3, .causal = true}, weights, "conv1.");
//   Tensor y = conv.forward({x, offsets});                                         // causal: as long as x
#pragma once

#include <cstdint>
#include <string>

#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"
#include "qkv/matmul.h"

namespace qkv {

struct Conv1dConfig {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t dilation = 1;
  bool bias = true;
  bool causal = false;
};

// Safe for concurrent forward(); only update() and backward() modify it.
class Conv1d : public Parameterized {
 public:
  // Takes weight [out, in, kernel] and bias [out].
  Conv1d(const Conv1dConfig& config, Weights& weights, const std::string& scope = "");

  const Conv1dConfig& config() const { return config_; }
  std::int64_t out_length(std::int64_t length) const;
  // The offsets of what forward makes of ragged rows with these.
  Tensor out_offsets(const TensorView& offsets) const;

  // [batch, length, in] -> [batch, out_length, out], or ragged [tokens, in] -> [out tokens, out]. threads as in
  // MatmulOptions. The result of a sequence has the same bits in any batch and on any threads.
  Tensor forward(const Sequences& x, int threads = 0) const;

  // With the input of forward and the gradient of its output: adds to the gradients of parameters that require them,
  // and to grad_x, row-major of x's shape, if it is given.
  void backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  class Windows;
  template <class T>
  class Backward;

  std::int64_t depth() const { return config_.kernel * config_.in; }
  // The weight as [out, depth], tap after tap.
  Tensor matrix() const;
  void add_weight_gradient(const Tensor& gradient);
  void pack();

  Conv1dConfig config_;
  WeightStorage storage_;
  Parameter weight_, bias_;
  PackedMatrix windows_to_out_;  // [n, depth] -> [n, out]
};

}  // namespace qkv
