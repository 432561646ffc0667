// The products of a convolution: windows of the input, gathered block by block, times the filters.
#pragma once

#include "layers/convolution/windows.h"
#include "qkv/layers/convolution.h"

namespace qkv::inline layers {

// The output, of x [..., in]. std::invalid_argument, naming the layer, if the types differ.
Tensor convolve(std::string_view layer, const ConvolutionFilters& filters, const Windows& windows, const TensorView& x,
                int threads);

// Adds to the gradients of the filters that want them, and to grad_x if it is given. std::invalid_argument if shapes or
// types do not fit.
void convolve_backward(std::string_view layer, ConvolutionFilters& filters, const Windows& windows, const TensorView& x,
                       const TensorView& grad_out, const MutableTensorView& grad_x, int threads);

}  // namespace qkv::inline layers
