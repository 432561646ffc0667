/// \file
/// A picture that a Vision Transformer reads, to be explained (explain_model.h, picture_attention.h). Its tokens are
/// "class", then each patch by row and column, "0,0".
#pragma once

#include "qkv/api.h"
#include "qkv/explain/explainable.h"
#include "qkv/models/vit.h"

namespace qkv {

class QKV_API EncodedPicture : public Explainable {
 public:
  /// `pixels` f32 [height, width, channels], as an ImageProcessor gives them. The model must outlive it.
  /// std::invalid_argument as Vit::forward, and if what is to be left out is not there.
  EncodedPicture(const Vit& model, Tensor pixels, const VitOptions& options = {}, LeftOut left_out = {});

  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override { forward({}, &observer); }
  Outcome outcome(const LeftOut& more) const override;

  const Tensor& pixels() const { return pixels_; }
  PictureSize grid() const { return grid_; }

 private:
  Tensor forward(const LeftOut& more, Observer* observer) const;

  const Vit& model_;
  Tensor pixels_;
  VitOptions options_;
  PictureSize grid_;
  Attentions attentions_;
};

}  // namespace qkv
