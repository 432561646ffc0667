// Conv2d: a convolution whose windows are those of pictures.
#include "layers/convolution/convolve.h"
#include "qkv/layers/convolution.h"

namespace qkv {
namespace {

WindowAxis vertical(const Conv2dConfig& config) {
  return {.kernel = config.kernel.height,
          .stride = config.stride.height,
          .dilation = config.dilation.height,
          .before = config.padding.height,
          .after = config.padding.height};
}

WindowAxis horizontal(const Conv2dConfig& config) {
  return {.kernel = config.kernel.width,
          .stride = config.stride.width,
          .dilation = config.dilation.width,
          .before = config.padding.width,
          .after = config.padding.width};
}

ConvolutionFilters::Config checked(const Conv2dConfig& config) {
  check_axis("conv2d", vertical(config));
  check_axis("conv2d", horizontal(config));
  return {.in = config.in,
          .out = config.out,
          .groups = config.groups,
          .kernel = {config.kernel.height, config.kernel.width},
          .bias = config.bias};
}

Windows windows_of(const Conv2dConfig& config, const TensorView& x) {
  return Windows::of_pictures("conv2d", vertical(config), horizontal(config), x, config.in);
}

}  // namespace

Conv2d::Conv2d(const Conv2dConfig& config, Weights& weights, const std::string& scope)
    : config_(config), filters_(checked(config), weights, scope) {}

PictureSize Conv2d::out_size(const PictureSize& size) const {
  return {vertical(config_).count(size.height), horizontal(config_).count(size.width)};
}

Tensor Conv2d::forward(const TensorView& x, int threads) const {
  return convolve("conv2d", filters_, windows_of(config_, x), x, threads);
}

void Conv2d::backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads) {
  convolve_backward("conv2d", filters_, windows_of(config_, x), x, grad_out, grad_x, threads);
}

}  // namespace qkv
