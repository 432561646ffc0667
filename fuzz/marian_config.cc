// Any bytes as the config.json of an encoder-decoder: what is accepted is a model that can be.
#include "qkv/error.h"
#include "qkv/models/marian.h"
#include "reader.h"

void read(std::string_view bytes) {
  const std::string folder = qkv::fuzz::folder_with("config.json", bytes);
  try {
    qkv::Marian::is_in(folder);
  } catch (const qkv::FormatError&) {
  }
  const qkv::MarianConfig config = qkv::Marian::read_config(folder);
  if (config.model_dim % config.encoder_heads != 0 || config.model_dim % config.decoder_heads != 0) __builtin_trap();
  for (const std::int32_t token : {config.end, config.padding, config.start}) {
    if (token < 0 || token >= config.vocab) __builtin_trap();
  }
}
