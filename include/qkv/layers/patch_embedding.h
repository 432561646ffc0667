/// \file
/// Pictures as sequences of tokens: each patch is projected to a row, a learnt class token goes before them, and each
/// token has a learnt position. Pictures with another number of patches than positions were learnt for have these
/// interpolated, bicubic with a = -0.75, as torch.nn.functional.interpolate(align_corners=False).
///   out[0] = class_token + position[0],  out[1 + i] = projection(patch i) + position[1 + i], row by row of the grid
/// Source: Dosovitskiy et al., "An image is worth 16x16 words" (2021), section 3.1.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/linear.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/weights.h"
#include "qkv/pictures.h"

namespace qkv {

struct PatchEmbeddingConfig {
  std::int64_t channels = 3;
  PictureSize patch{};
  PictureSize grid{};  ///< patches of the pictures that positions are learnt for
  std::int64_t dim = 0;
};

/// Safe for concurrent forward(); only update() and backward() modify it.
class QKV_API PatchEmbedding : public Parameterized {
 public:
  /// Takes projection.weight [dim, channels * patch height * patch width], projection.bias [dim], class_token [dim] and
  /// positions.weight [1 + grid height * grid width, dim].
  PatchEmbedding(const PatchEmbeddingConfig& config, Weights& weights, const std::string& scope = "");

  /// The patches of pictures of this size; the rest at the right and at the bottom is ignored. std::invalid_argument if
  /// there is none.
  PictureSize grid_of(const PictureSize& pixels) const;

  /// pictures [batch, height, width, channels] -> [batch, 1 + patches, dim].
  Tensor forward(const TensorView& pictures, int threads = 0) const;
  /// Adds to the gradients of the parameters that want them.
  void backward(const TensorView& pictures, const TensorView& grad_out, int threads = 0);

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  PictureSize check(const TensorView& pictures) const;

  PatchEmbeddingConfig config_;
  Linear projection_;
  Parameter class_token_, positions_;
};

}  // namespace qkv
