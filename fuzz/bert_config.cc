// Any bytes as the config.json of an encoder: what is accepted is a model that can be.
#include "qkv/models/bert.h"
#include "reader.h"

void read(std::string_view bytes) {
  const qkv::BertConfig config = qkv::Bert::read_config(qkv::fuzz::folder_with("config.json", bytes));
  if (config.padding < -1 || config.padding >= config.vocab || config.positions < 1) __builtin_trap();
  if (config.heads < 1 || config.model_dim % config.heads != 0) __builtin_trap();
}
