// PictureClassifier: prepares a picture, runs the model, and sorts its classes.
#include "qkv/pipelines/picture_classifier.h"

#include "core/refuse.h"
#include "pipelines/classes.h"
#include "qkv/error.h"
#include "qkv/stop.h"

namespace qkv {

PictureClassifier PictureClassifier::load(const std::string& folder, WeightStorage storage) {
  Vit::read_config(folder);  // of another kind of model it says so
  ImageProcessor processor = ImageProcessor::load(folder);
  Vit model = Vit::load(folder, storage);
  if (model.config().labels.empty()) {
    throw FormatError(folder + ": the model has no classifier; classifier.weight is missing");
  }
  return {std::move(processor), std::move(model)};
}

PictureClassifier::PictureClassifier(ImageProcessor processor, Vit model)
    : processor_(std::move(processor)), model_(std::move(model)) {
  refuse_unless(!model_.config().labels.empty(), "picture_classifier", "the model has no classifier");
}

std::vector<ClassProbability> PictureClassifier::classify(const TensorView& picture, std::int64_t top,
                                                          const VitOptions& options) const {
  const StopScope stop(options.stop);
  refuse_unless(top >= 1, "picture_classifier", "top is {}, at least 1 is needed", top);
  const Tensor pixels = processor_.process(picture, options.threads);
  const Tensor logits = model_.logits(pixels.view().reshape({1, pixels.size(0), pixels.size(1), 3}), options);
  return most_probable({logits.data<float>(), static_cast<std::size_t>(logits.size(1))}, model_.config().labels, top);
}

}  // namespace qkv
