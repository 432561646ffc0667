/// \file
/// Converts the masks of torch.nn.MultiheadAttention. There true hides a key and a float is added to the logits;
/// here true lets a query attend, and added floats are a bias.
///
///     TorchMasks masks({.attention = attn_mask, .key_padding = key_padding_mask}, heads);
///     layer.forward(x, {.mask = masks.mask(), .bias = masks.bias()});
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/mask.h"

namespace qkv {

class QKV_API TorchMasks {
 public:
  /// Either may be absent. bool, or the layer's floating type.
  struct Given {
    TensorView attention;    ///< attn_mask: [q_len, k_len] or [batch * heads, q_len, k_len]
    TensorView key_padding;  ///< key_padding_mask: [batch, k_len] or [k_len]
  };
  /// std::invalid_argument for other shapes and types. Movable, not copyable: mask and bias point into it.
  TorchMasks(const Given& given, std::int64_t heads);
  TorchMasks(TorchMasks&&) = default;
  TorchMasks& operator=(TorchMasks&&) = default;

  /// Both borrow from this object.
  const Mask& mask() const { return mask_; }
  const Bias& bias() const { return bias_; }

 private:
  void add(const char* name, const TensorView& values, const Dims& shape);

  std::vector<Tensor> storage_;
  Mask mask_;
  Bias bias_;
};

}  // namespace qkv
