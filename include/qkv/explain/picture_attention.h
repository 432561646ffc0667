/// \file
/// Where a Vision Transformer looks: the weights of one token, the class token or a patch, over the patches of the
/// picture, of each head and through all layers. All weights come from the model's own run, through an observer.
///
///     EncodedPicture picture(model, processor.process(read_picture("cat.jpg")));
///     PictureAttention seen = survey_picture(picture);
///     write_file("cat.svg", to_svg(seen, view_of(picture.pixels(), processor.config())));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/explain/encoded_picture.h"
#include "qkv/explain/explain_model.h"
#include "qkv/models/image_processor.h"

namespace qkv {

struct PictureAttention {
  struct Head {
    HeadIndex index;
    HeadSummary summary;
    double to_class = 0;  ///< the token's weight to the class token
    Tensor patches{};     ///< [grid height, grid width], f64: its weights to the patches
  };
  std::string fingerprint{};                ///< of the model (qkv/pipelines/fingerprint.h), for JSON; empty: not known
  std::vector<ClassProbability> classes{};  ///< the three most probable; none: the model has no classifier
  PictureSize grid{};
  std::string token;          ///< the query of the weights
  std::vector<Head> heads{};  ///< layer by layer
  /// [grid height, grid width], f64, attention rollout: the token's row of the product over the layers of (A + I) / 2,
  /// A the mean of a layer's heads. Source: Abnar, Zuidema, "Quantifying attention flow in Transformers" (2020).
  Tensor rollout{};
};

/// For this token, by its name or number (find_token).
QKV_API PictureAttention survey_picture(const EncodedPicture& picture, const std::string& token = "class");

/// What the model sees, as u8 [height, width, 3]: `pixels` [height, width, 3] without the normalisation.
QKV_API Tensor view_of(const Tensor& pixels, const ImageProcessorConfig& config);

/// The rollout over the picture, in half blocks where there is colour, else in letters, then a line for each head.
QKV_API std::string to_text(const PictureAttention& seen, const TensorView& view, const TextStyle& style = {});
/// The picture, the rollout over it, and each head over it, on one page that needs no other file.
QKV_API std::string to_svg(const PictureAttention& seen, const TensorView& view);
/// One JSON object with every number, and the pixels of the view.
QKV_API std::string to_json(const PictureAttention& seen, const TensorView& view);

}  // namespace qkv
