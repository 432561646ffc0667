// Lists and reads the keys of a classifier's training.
#include "train/config/classifier_config.h"

#include "models/model_config.h"
#include "train/config/training_keys.h"

namespace qkv::training {
namespace {

constexpr std::int64_t kMostShift = 64;

std::vector<ConfigKey<ClassifierConfig>> make_classifier_keys() {
  using C = ClassifierConfig;
  using K = KeysOf<C>;
  std::vector<ConfigKey<C>> keys{
      K::integer({"model", "picture", "pixels", "Height and width that pictures are resized to."}, &C::picture, 1,
                 kLongestProcessedEdge, kRequired),
      K::integer({"model", "patch", "pixels", "Height and width of a patch, which is a token; at most model.picture."},
                 &C::patch, 1, kLongestProcessedEdge, kRequired),
      K::size({"model", "model_dim", "elements", "Size of the vector of a token."},
              path(&C::model, &VitConfig::model_dim), kRequired),
      K::size({"model", "heads", "heads", "Heads of every attention; they divide model_dim."},
              path(&C::model, &VitConfig::heads), kRequired),
      K::size({"model", "ff_dim", "elements", "Size of the vector between the two matrices of a feed-forward layer."},
              path(&C::model, &VitConfig::ff_dim), kRequired),
      K::integer({"model", "layers", "layers", "Layers of the encoder."}, path(&C::model, &VitConfig::layers), 1,
                 kMaxLayers, kRequired),
      K::choice({"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
                path(&C::model, &VitConfig::activation), activation_names()),
      dropout_key<C>(),
      dtype_key<C>(),

      K::integer({"pictures", "largest", "-", "The pixel value of white in a CSV file; 0 is black."}, &C::largest, 1,
                 65535),
      K::integer({"pictures", "shift", "pixels",
                  "Also trains on pictures shifted by up to this many pixels in each direction, filled with black."},
                 &C::shift, 0, kMostShift),

      K::integer({"training", "batch", "pictures", "Pictures of a batch."},
                 path(&C::training, &TrainingConfig::batch_tokens), 1),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const KeyTable<ClassifierConfig>& classifier_keys() {
  static const KeyTable<ClassifierConfig> table{"Keys of a classifier's config (one that has \"pictures\"):\n",
                                                make_classifier_keys()};
  return table;
}

ClassifierConfig read_classifier_config(const std::string& path) {
  return read_config(path, classifier_keys(), [](const io::JsonValue& root, ClassifierConfig& config) {
    const io::JsonValue model = root["model"];
    if (config.patch > config.picture) {
      model["patch"].refuse(fmt::format("is {}, must be at most model.picture, {}", config.patch, config.picture));
    }
    if (config.model.model_dim % config.model.heads != 0) {
      model["heads"].refuse(
          fmt::format("is {}, must divide model_dim, {}", config.model.heads, config.model.model_dim));
    }
    config.model.picture = {config.picture, config.picture};
    config.model.patch = {config.patch, config.patch};
  });
}

}  // namespace qkv::training
