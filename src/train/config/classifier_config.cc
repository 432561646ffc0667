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
      K::integer(
          {"model", "picture", "pixels", "Height and width that pictures are resized to."},
          [](C& c) -> auto& { return c.picture; }, 1, kLongestProcessedEdge, kRequired),
      K::integer(
          {"model", "patch", "pixels", "Height and width of a patch, which is a token; at most model.picture."},
          [](C& c) -> auto& { return c.patch; }, 1, kLongestProcessedEdge, kRequired),
      K::size(
          {"model", "model_dim", "elements", "Size of the vector of a token."},
          [](C& c) -> auto& { return c.model.model_dim; }, kRequired),
      K::size(
          {"model", "heads", "heads", "Heads of every attention; they divide model_dim."},
          [](C& c) -> auto& { return c.model.heads; }, kRequired),
      K::size(
          {"model", "ff_dim", "elements", "Size of the vector between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.ff_dim; }, kRequired),
      K::integer(
          {"model", "layers", "layers", "Layers of the encoder."}, [](C& c) -> auto& { return c.model.layers; }, 1,
          kMaxLayers, kRequired),
      K::choice(
          {"model", "activation", "-", "Function between the two matrices of a feed-forward layer."},
          [](C& c) -> auto& { return c.model.activation; }, activation_names()),
      dropout_key<C>(),
      dtype_key<C>(),

      K::integer(
          {"pictures", "largest", "-", "The number in a CSV file that is white; 0 is black."},
          [](C& c) -> auto& { return c.largest; }, 1, 65535),
      K::integer(
          {"pictures", "shift", "pixels",
           "Pictures to train on are also shown shifted by up to so many pixels in each direction, black beyond the "
           "edge."},
          [](C& c) -> auto& { return c.shift; }, 0, kMostShift),

      K::integer(
          {"training", "batch", "pictures", "Pictures of a batch."},
          [](C& c) -> auto& { return c.training.batch_tokens; }, 1),
  };
  add_training_keys(keys);
  return keys;
}

}  // namespace

const std::vector<ConfigKey<ClassifierConfig>>& classifier_keys() {
  static const std::vector<ConfigKey<ClassifierConfig>> keys = make_classifier_keys();
  return keys;
}

std::string classifier_keys_text() {
  return "Keys of a classifier's config (one that has \"pictures\"):\n" +
         keys_text({classifier_keys().begin(), classifier_keys().end()});
}

std::string classifier_keys_markdown() { return keys_markdown({classifier_keys().begin(), classifier_keys().end()}); }

ClassifierConfig read_classifier_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  ClassifierConfig config;
  read_keys(root, classifier_keys(), config);
  const io::JsonValue model = root["model"];
  if (config.patch > config.picture) {
    model["patch"].refuse(fmt::format("is {}, must be at most model.picture, {}", config.patch, config.picture));
  }
  if (config.model.model_dim % config.model.heads != 0) {
    model["heads"].refuse(fmt::format("is {}, must divide model_dim, {}", config.model.heads, config.model.model_dim));
  }
  expect_end(root["training"], config.training);
  config.model.picture = {config.picture, config.picture};
  config.model.patch = {config.patch, config.patch};
  return config;
}

}  // namespace qkv::training
