/// \file
/// The function between the two matrices of a feed-forward layer.
#pragma once

namespace qkv {

enum class Activation {
  relu,
  gelu,       ///< exact: x Phi(x) with the normal distribution function. Source: Hendrycks, Gimpel (2016).
  gelu_tanh,  ///< x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the approximation of the same paper
  silu,       ///< x / (1 + e^-x), also called swish. Source: Elfwing, Uchibe, Doya (2017).
};

}  // namespace qkv
