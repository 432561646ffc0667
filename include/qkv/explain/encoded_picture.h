/// \file
/// A picture that a Vision Transformer reads, to be explained (explain_model.h, picture_attention.h). Its tokens are
/// "class", then each patch by row and column, "0,0".
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/models/vit.h"
#include "qkv/pipelines/class_probability.h"

namespace qkv {

class QKV_API EncodedPicture : public Explainable {
 public:
  /// `pixels` f32 [height, width, channels], as an ImageProcessor gives them. The model must outlive it.
  /// std::invalid_argument as Vit::forward, and if `left_out` names a head or key that does not exist.
  EncodedPicture(const Vit& model, Tensor pixels, const VitOptions& options = {}, LeftOut left_out = {});

  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { forward({}, &observer); }
  Outcome outcome(const LeftOut& more) const override;

  /// The `top` most probable classes by the model, in decreasing order; none if it has no classifier.
  std::vector<ClassProbability> classes(std::int64_t top) const;

  const Tensor& pixels() const { return pixels_; }
  PictureSize grid() const { return grid_; }

 private:
  Tensor forward(const LeftOut& more, Observer* observer) const;
  TensorView batch() const { return pixels_.view().reshape({1, pixels_.size(0), pixels_.size(1), pixels_.size(2)}); }

  const Vit& model_;
  Tensor pixels_;
  VitOptions options_;
  PictureSize grid_;
  Attentions attentions_;
};

}  // namespace qkv
