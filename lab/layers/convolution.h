// Convolutions, as torch.nn.Conv1d and Conv2d (cross-correlations), with channels last: an output is
//   out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t * stride + k * dilation - padding, c]
// where x outside of its sequence or picture is 0; a Conv2d sums over rows and columns of a picture. With groups,
// outputs and inputs are cut into as many equal ranges of channels, and outputs see the inputs of their range alone.
// Source: LeCun et al., "Gradient-based learning applied to document recognition" (1998); causal and dilated: van den
// Oord et al., "WaveNet" (2016).
//
// Conv1d takes Sequences, [batch, length, channels] or ragged rows [tokens, channels]: no sequence sees another one.
// Conv2d takes pictures [batch, height, width, channels]. (torch has the channels before lengths, heights and widths.)
// Weights have torch's names and layouts. Where no window fits, or there is nothing but padding, the output is empty;
// torch refuses such inputs.
//
//   Conv1d conv({.in = 256, .out = 256, .kernel = 3, .causal = true}, weights, "conv1.");
//   Tensor y = conv.forward({x, offsets});                                         // causal: as long as x
//   Conv2d picture({.in = 1, .out = 16, .kernel = {3, 3}, .padding = {1, 1}}, weights, "conv2.");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"
#include "qkv/matmul.h"
#include "qkv/pictures.h"

namespace qkv {

// The weight and bias of a convolution, laid out for products with windows, whose numbers are [tap][channel of group].
class ConvolutionFilters {
 public:
  struct Config {
    std::int64_t in = 0, out = 0, groups = 1;
    Dims kernel;
    bool bias = true;
  };

  // Takes weight [out, in / groups, kernel...] and bias [out].
  ConvolutionFilters(const Config& config, Weights& weights, const std::string& scope);

  const Config& config() const { return config_; }
  Dtype dtype() const { return weight_.value.dtype(); }
  std::int64_t taps() const { return element_count(config_.kernel); }
  std::int64_t group_in() const { return config_.in / config_.groups; }
  std::int64_t group_out() const { return config_.out / config_.groups; }

  // The right operand of windows [n, taps * group_in] -> outputs [n, group_out].
  const PackedMatrix& part(std::int64_t group) const { return parts_[static_cast<std::size_t>(group)]; }
  TensorView bias(std::int64_t group) const;
  // The weight of a group as [group_out, taps * group_in].
  Tensor matrix(std::int64_t group) const;

  bool wants_weight_gradient() const { return weight_.has_gradient(); }
  // Adds a gradient in the form of matrix().
  void add_weight_gradient(std::int64_t group, const Tensor& gradient);
  // Not given if it is not wanted.
  MutableTensorView bias_gradient(std::int64_t group);

  void visit(const ParameterVisitor& visitor, const std::string& scope) const;
  void update(const ParameterUpdater& updater, const std::string& scope);

 private:
  void pack();

  Config config_;
  WeightStorage storage_;
  Parameter weight_, bias_;
  std::vector<PackedMatrix> parts_;
};

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

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const { filters_.visit(visitor, scope); }
  void update(const ParameterUpdater& updater, const std::string& scope = "") { filters_.update(updater, scope); }

 private:
  Conv1dConfig config_;
  ConvolutionFilters filters_;
};

struct Conv2dConfig {
  std::int64_t in = 0;
  std::int64_t out = 0;
  PictureSize kernel{1, 1};
  PictureSize stride{1, 1};
  PictureSize padding{0, 0};  // zeros on both sides
  PictureSize dilation{1, 1};
  std::int64_t groups = 1;  // divides in and out
  bool bias = true;
};

// Safe for concurrent forward(); only update() and backward() modify it.
class Conv2d {
 public:
  // Takes weight [out, in / groups, height, width] and bias [out].
  Conv2d(const Conv2dConfig& config, Weights& weights, const std::string& scope = "");

  const Conv2dConfig& config() const { return config_; }
  PictureSize out_size(const PictureSize& size) const;

  // [batch, height, width, in] -> [batch, out height, out width, out]. As Conv1d.
  Tensor forward(const TensorView& x, int threads = 0) const;
  void backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x = {}, int threads = 0);

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const { filters_.visit(visitor, scope); }
  void update(const ParameterUpdater& updater, const std::string& scope = "") { filters_.update(updater, scope); }

 private:
  Conv2dConfig config_;
  ConvolutionFilters filters_;
};

}  // namespace qkv
