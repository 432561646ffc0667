// Resizing of 8-bit pictures with the arithmetic of Image.resize in Pillow 13 (libImaging/Resample.c): one direction,
// by weights in fixed point of 22 bits, rounded to 8 bits, then the other.
#pragma once

#include <cstdint>

#include "qkv/models/image_processor.h"
#include "qkv/tensor.h"

namespace qkv::inline models {

// u8 [height, width, 3], row-major and not empty, to u8 [size.height, size.width, 3].
Tensor resize_picture(const TensorView& picture, const PictureSize& size, Resampling resampling, int threads);

}  // namespace qkv::inline models
