// The largest or the mean element of every window, channel by channel, as torch.nn.MaxPool1d, MaxPool2d, AvgPool1d and
// AvgPool2d, with channels last as in convolution.h. Padding is never the largest, and counts as zeros in a mean. A
// window with a NaN gives NaN. The gradient of a largest element goes to the first of equal ones.
//
//   Pool2d pool({.kernel = {2, 2}});                       // the largest of 2 x 2
//   Tensor y = pool.forward(x);                            // [batch, height, width, channels], halved
#pragma once

#include <cstdint>

#include "qkv/layers/sequences.h"
#include "qkv/pictures.h"
#include "qkv/tensor.h"

namespace qkv {

enum class PoolKind { max, average };

struct Pool1dConfig {
  PoolKind pooling = PoolKind::max;
  std::int64_t kernel = 1;
  std::int64_t stride = 0;   // 0: kernel
  std::int64_t padding = 0;  // at both ends; at most kernel / 2
};

class Pool1d {
 public:
  explicit Pool1d(const Pool1dConfig& config);

  const Pool1dConfig& config() const { return config_; }
  std::int64_t out_length(std::int64_t length) const;
  // The offsets of what forward makes of ragged rows with these.
  Tensor out_offsets(const TensorView& offsets) const;

  // [batch, length, channels] -> [batch, out_length, channels], or ragged [tokens, channels] -> [out tokens, channels];
  // f32 or f64.
  Tensor forward(const Sequences& x, int threads = 0) const;
  // From the input of forward and the gradient of its output: adds to grad_x, row-major of x's shape.
  void backward(const Sequences& x, const TensorView& grad_out, const MutableTensorView& grad_x, int threads = 0) const;

 private:
  Pool1dConfig config_;
};

struct Pool2dConfig {
  PoolKind pooling = PoolKind::max;
  PictureSize kernel{1, 1};
  PictureSize stride{0, 0};   // 0: kernel
  PictureSize padding{0, 0};  // on both sides; at most kernel / 2
};

class Pool2d {
 public:
  explicit Pool2d(const Pool2dConfig& config);

  const Pool2dConfig& config() const { return config_; }
  PictureSize out_size(const PictureSize& size) const;

  // [batch, height, width, channels] -> [batch, out height, out width, channels]. As Pool1d.
  Tensor forward(const TensorView& x, int threads = 0) const;
  void backward(const TensorView& x, const TensorView& grad_out, const MutableTensorView& grad_x,
                int threads = 0) const;

 private:
  Pool2dConfig config_;
};

}  // namespace qkv
