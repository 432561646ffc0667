// Two classifiers beside that of digits, trained on the same pictures, in the same shifts and as often: a linear one
// and a small convolutional network. Prints how many of the pictures to test are right.
//
//   digit_classifiers CONFIG TRAIN TEST FOLDER
//
// CONFIG is that of the classifier (configs/digits.json), of which the model alone is another; TRAIN and TEST are as
// for qkv train. FOLDER gets the checkpoints, from which a call that was interrupted resumes.
#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "classifiers/picture_network.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/image_processor.h"
#include "qkv/train/training.h"
#include "train/config/classifier_config.h"
#include "train/data/labelled_pictures.h"

namespace qkv::bench {
namespace {

using training::ClassifierConfig;
using training::PictureExamples;
using training::PictureFiles;

// A linear classifier cannot follow what moves, and smoothed labels only hold its weights back: with either it has
// fewer right. It sees the pictures where they are, and each as often as another network sees it in all shifts.
ClassifierConfig without_shifts(ClassifierConfig config) {
  const std::int64_t side = 2 * config.shift + 1;
  config.training.epochs *= side * side;
  config.shift = 0;
  config.label_smoothing = 0;
  return config;
}

struct Pictures {
  PictureFiles train, test;
  std::vector<float> black;
};

// Trains, and prints how many of the test are right after the last update.
void measure(const std::string& name, const ClassifierConfig& config, const std::vector<ConvolutionBlockConfig>& blocks,
             const Pictures& pictures, const std::string& folder) {
  Weights weights = initial_weights(config.training.seed);
  PictureNetwork network({.picture = config.model.picture,
                          .blocks = blocks,
                          .classes = std::ssize(pictures.train.labels),
                          .label_smoothing = config.label_smoothing},
                         weights);
  std::string identity;
  for (const ConvolutionBlockConfig& block : blocks) identity += fmt::format("{}/{} ", block.out, block.pool);
  const PictureExamples examples(pictures.train, config.shift, pictures.black), test(pictures.test, 0, pictures.black);
  const TrainingResult result =
      train(network, TrainingData<LabelledPictures>{examples, test}, config.training, folder + "/" + name,
            {.identity = {{"blocks", identity}},
             .settings = {{"label_smoothing", fmt::format("{}", config.label_smoothing)}}});
  const double share = result.best_metric->value;
  fmt::print("{} {} of {} right ({:.2f} %)", name, std::lround(share * static_cast<double>(test.count())), test.count(),
             100 * share);
}

void run(const std::string& config_path, const std::string& train_path, const std::string& test_path,
         const std::string& folder) {
  const ClassifierConfig config = training::read_classifier_config(config_path);
  const ImageProcessor processor({.resize = ImageProcessorConfig::Resize{.size = config.model.picture}});
  const Tensor dark = processor.process(Tensor::zeros({1, 1, 3}, Dtype::u8));
  Pictures pictures{.train = training::read_labelled_pictures(train_path, config.largest, processor),
                    .test = training::read_labelled_pictures(test_path, config.largest, processor),
                    .black = {dark.data<float>(), dark.data<float>() + 3}};
  pictures.test = training::with_labels(std::move(pictures.test), pictures.train.labels, test_path);
  measure("linear", without_shifts(config), {}, pictures, folder);
  fmt::print(", ");
  // 28 x 28 pixels become 7 x 7 in front of the linear layer.
  const std::vector<ConvolutionBlockConfig> blocks{
      {.out = 16}, {.out = 32, .pool = 2}, {.out = 32}, {.out = 32, .pool = 2}};
  measure("convolutions", config, blocks, pictures, folder);
  fmt::print("\n");
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  if (count != 5) {
    fmt::print(stderr, "usage: digit_classifiers CONFIG TRAIN TEST FOLDER\n");
    return 2;
  }
  try {
    qkv::bench::run(arguments[1], arguments[2], arguments[3], arguments[4]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "digit_classifiers: {}\n", error.what());
    return 1;
  }
}
