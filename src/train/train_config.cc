// Reads and checks the config of a training.
#include "train/train_config.h"

#include <fmt/format.h>

#include <set>

#include "io/json_document.h"
#include "train/train_keys.h"

namespace qkv::training {
namespace {

void expect_known(const io::JsonValue& object, const std::set<std::string>& known) {
  object.for_each_member([&](const std::string& key, const io::JsonValue& member) {
    if (known.contains(key)) return;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    member.refuse("is unknown; known are " + names);
  });
}

// What needs more than one key, and what follows from other keys.
void complete(const io::JsonValue& root, TrainConfig& config) {
  MarianConfig& model = config.model;
  const auto complete_heads = [&](const char* key, std::int64_t& heads) {
    const bool own = heads > 0;
    if (!own) heads = config.heads;
    const io::JsonValue value = root["model"][own ? key : "heads"];
    if (model.model_dim % heads != 0) {
      value.refuse(fmt::format("is {}, must divide model_dim, {}", heads, model.model_dim));
    }
    if (model.position_kind == MarianPositions::rotary && model.model_dim / heads % 2 != 0) {
      value.refuse(fmt::format("is {}: rotary positions need an even model_dim / heads", heads));
    }
  };
  complete_heads("encoder_heads", model.encoder_heads);
  complete_heads("decoder_heads", model.decoder_heads);
  for (std::int64_t* own : {&model.encoder_ff_dim, &model.decoder_ff_dim}) {
    if (*own == 0) *own = config.ff_dim;
  }
  if (config.training.steps == 0 && config.training.epochs == 0) {
    root["training"].refuse("must have steps or epochs above 0");
  }
  if (config.max_length == 0) config.max_length = model.positions;
  if (config.max_length > model.positions) {
    root["training"]["max_length"].refuse(
        fmt::format("is {}, must be at most model.positions, {}", config.max_length, model.positions));
  }
}

}  // namespace

TrainConfig read_train_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  std::set<std::string> sections;
  for (const TrainKey& key : train_keys()) sections.insert(key.section);
  expect_known(root, sections);
  for (const std::string& section : sections) {
    std::set<std::string> known;
    for (const TrainKey& key : train_keys()) {
      if (key.section == section) known.insert(key.name);
    }
    if (const auto object = root.find(section)) expect_known(*object, known);
  }
  TrainConfig config;
  for (const TrainKey& key : train_keys()) {
    const io::JsonValue section = root[key.section];
    const bool required = key.otherwise.empty();
    if (const auto value = required ? section[key.name] : section.find(key.name)) key.read(*value, config);
  }
  complete(root, config);
  return config;
}

}  // namespace qkv::training
