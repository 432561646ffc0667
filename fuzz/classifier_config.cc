// Any bytes as the config of a classifier's training.
#include "train/classifier_config.h"

#include "reader.h"

void read(std::string_view bytes) {
  const auto config =
      qkv::training::read_classifier_config(qkv::fuzz::folder_with("train.json", bytes) + "/train.json");
  if (config.training.steps < 1 && config.training.epochs < 1) __builtin_trap();
  if (config.model.model_dim % config.model.heads != 0 || config.patch > config.picture) __builtin_trap();
}
