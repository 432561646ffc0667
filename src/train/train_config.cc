// Reads and checks the config of a training.
#include "train/train_config.h"

#include <fmt/format.h>

#include "io/json_document.h"
#include "train/train_keys.h"

namespace qkv::training {
namespace {

// What needs more than one key, and what follows from other keys.
void complete_marian(const io::JsonValue& root, TrainConfig& config) {
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
}

void complete_seq2seq(const io::JsonValue& root, const Seq2SeqConfig& model) {
  if (model.model_dim % model.directions != 0) {
    root["model"]["model_dim"].refuse("must be even: the encoder has two directions, each with half of it");
  }
}

void complete(const io::JsonValue& root, TrainConfig& config) {
  if (config.training.steps == 0 && config.training.epochs == 0) {
    root["training"].refuse("must have steps or epochs above 0");
  }
  if (config.max_length == 0) config.max_length = config.positions();
  if (config.max_length > config.positions()) {
    root["training"]["max_length"].refuse(
        fmt::format("is {}, must be at most model.positions, {}", config.max_length, config.positions()));
  }
}

}  // namespace

TrainConfig read_train_config(const std::string& path) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const io::JsonValue root = document.root();
  TrainConfig config;
  if (root["model"].find("attention")) {
    config.seq2seq = Seq2SeqConfig{.positions = 512};
    read_keys(root, seq2seq_keys(), config);
    complete_seq2seq(root, *config.seq2seq);
  } else {
    read_keys(root, train_keys(), config);
    complete_marian(root, config);
  }
  complete(root, config);
  return config;
}

}  // namespace qkv::training
