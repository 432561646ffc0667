/// \file
/// Classifies pictures: an image processor and a Vision Transformer with a classifier.
///
///     PictureClassifier classifier = PictureClassifier::load("models/digits");
///     for (const ClassProbability& found : classifier.classify(read_picture("7.png"), 3)) ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/models/image_processor.h"
#include "qkv/models/vit.h"
#include "qkv/pipelines/class_probability.h"

namespace qkv {

/// Safe for concurrent calls.
class QKV_API PictureClassifier {
 public:
  /// `folder` holds what Vit::load and ImageProcessor::load read. FormatError as from these, and for a model without a
  /// classifier.
  static PictureClassifier load(const std::string& folder, WeightStorage storage = WeightStorage::full);

  PictureClassifier(ImageProcessor processor, Vit model);

  /// The `top` most probable classes of a picture u8 [height, width, 3], in decreasing order; ties in the model's
  /// order.
  std::vector<ClassProbability> classify(const TensorView& picture, std::int64_t top = 1,
                                         const VitOptions& options = {}) const;

  const ImageProcessor& processor() const { return processor_; }
  const Vit& model() const { return model_; }

 private:
  ImageProcessor processor_;
  Vit model_;
};

}  // namespace qkv
