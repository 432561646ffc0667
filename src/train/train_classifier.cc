// train_classifier(): checks files and folder, makes the model, and trains.
#include "qkv/train/train_classifier.h"

#include <fmt/format.h>

#include "qkv/stop.h"
#include "train/checkpoints.h"
#include "train/config/classifier_config.h"
#include "train/config/run_identity.h"
#include "train/data/labelled_pictures.h"
#include "train/trained_with.h"

namespace qkv {
namespace {

using training::ClassifierConfig;
using training::PictureFiles;

std::map<std::string, std::string> identity_of_classifier(const ClassifierConfig& config) {
  const VitConfig& model = config.model;
  std::string labels;
  for (const std::string& label : model.labels) labels += label + "\n";
  return {{"picture", training::as_identity(config.picture)},      {"patch", training::as_identity(config.patch)},
          {"model_dim", training::as_identity(model.model_dim)},   {"heads", training::as_identity(model.heads)},
          {"ff_dim", training::as_identity(model.ff_dim)},         {"layers", training::as_identity(model.layers)},
          {"activation", training::as_identity(model.activation)}, {"classes", labels}};
}

}  // namespace

TrainingResult train_classifier(const TrainClassifierFiles& files, const TrainingOptions& options) {
  const StopScope stop(options.stop);
  ClassifierConfig config = training::read_classifier_config(files.config);
  const ImageProcessor processor({.resize = ImageProcessorConfig::Resize{.size = config.model.picture}});
  const PictureFiles train_pictures = training::read_labelled_pictures(files.train, config.largest, processor);
  const PictureFiles valid_pictures = training::with_labels(
      training::read_labelled_pictures(files.valid, config.largest, processor), train_pictures.labels, files.valid);
  training::expect_own_files(files.out, {"model.safetensors", "config.json", "preprocessor_config.json"});
  config.model.labels = train_pictures.labels;
  Vit model =
      Vit::initial(config.model, config.training.seed, with_precision(WeightStorage::full, config.training.precision));
  training::TrainedWith<LabelledPictures, Vit, ClassifierConfig> trained(model, config, "accuracy");
  const Tensor dark = processor.process(Tensor::zeros({1, 1, 3}, Dtype::u8));
  const std::vector<float> black(dark.data<float>(), dark.data<float>() + 3);
  TrainingOptions all_options = options;
  all_options.identity = identity_of_classifier(config);
  all_options.settings = training::settings_of(config);
  all_options.write_model = [&] {
    processor.save(files.out);
    model.save(files.out, config.dtype);
  };
  return train(trained,
               TrainingData<LabelledPictures>{training::PictureExamples(train_pictures, config.shift, black),
                                              training::PictureExamples(valid_pictures, 0, black)},
               config.training, files.out, all_options);
}

}  // namespace qkv
