// Conv1d: a convolution whose windows are those of sequences.
#include "core/refuse.h"
#include "layers/convolution/convolve.h"
#include "qkv/layers/convolution.h"

namespace qkv {
namespace {

WindowAxis axis_of(const Conv1dConfig& config) {
  const std::int64_t reach = (config.kernel - 1) * config.dilation;
  return {.kernel = config.kernel,
          .stride = config.stride,
          .dilation = config.dilation,
          .before = config.causal ? reach : config.padding,
          .after = config.padding};
}

ConvolutionFilters::Config checked(const Conv1dConfig& config) {
  check_axis("conv1d", axis_of(config));
  if (config.causal && config.padding != 0) {
    refuse("conv1d", "causal with a padding of {}; it must be 0", config.padding);
  }
  return {.in = config.in, .out = config.out, .groups = config.groups, .kernel = {config.kernel}, .bias = config.bias};
}

}  // namespace

Conv1d::Conv1d(const Conv1dConfig& config, Weights& weights, const std::string& scope)
    : config_(config), filters_(checked(config), weights, scope) {}

std::int64_t Conv1d::out_length(std::int64_t length) const { return axis_of(config_).count(length); }

Tensor Conv1d::out_offsets(const TensorView& offsets) const {
  return window_offsets("conv1d", axis_of(config_), offsets);
}

Tensor Conv1d::forward(const Sequences& x, int threads) const {
  const Windows windows = Windows::of_sequences("conv1d", axis_of(config_), x, config_.in);
  return convolve("conv1d", filters_, windows, x.rows, threads);
}

void Conv1d::backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  const Windows windows = Windows::of_sequences("conv1d", axis_of(config_), x, config_.in);
  convolve_backward("conv1d", filters_, windows, x.rows, grad_out, grad_x, threads);
}

}  // namespace qkv
