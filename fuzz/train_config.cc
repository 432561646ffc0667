// Any bytes as the config of a training.
#include "train/train_config.h"

#include "reader.h"

void read(std::string_view bytes) {
  const auto config = qkv::training::read_train_config(qkv::fuzz::folder_with("train.json", bytes) + "/train.json");
  if (config.training.steps < 1 || config.model.model_dim % config.model.encoder_heads != 0) __builtin_trap();
}
