// Any bytes as the config.json of a Vision Transformer: what is accepted is a model that can be.
#include "qkv/models/vit.h"
#include "reader.h"

void read(std::string_view bytes) {
  const qkv::VitConfig config = qkv::Vit::read_config(qkv::fuzz::folder_with("config.json", bytes));
  if (config.heads < 1 || config.model_dim % config.heads != 0 || config.ff_dim < 1) __builtin_trap();
  if (config.patch.height < 1 || config.patch.height > config.picture.height) __builtin_trap();
  if (config.patch.width < 1 || config.patch.width > config.picture.width) __builtin_trap();
  if (config.labels.empty()) __builtin_trap();
}
