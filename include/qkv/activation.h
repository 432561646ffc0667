// The function between the two matrices of a feed-forward layer.
#pragma once

namespace qkv {

enum class Activation {
  relu,
  gelu,  // exact: x Phi(x) with the normal distribution function. Source: Hendrycks, Gimpel (2016).
  silu,  // x / (1 + e^-x), also called swish. Source: Elfwing, Uchibe, Doya (2017).
};

}  // namespace qkv
