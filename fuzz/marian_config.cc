// Any bytes as the config.json of an encoder-decoder: what is accepted is a model that can be.
#include "qkv/error.h"
#include "qkv/models/marian.h"
#include "qkv/models/seq2seq.h"
#include "reader.h"

void read(std::string_view bytes) {
  const std::string folder = qkv::fuzz::folder_with("config.json", bytes);
  try {
    qkv::EncoderDecoder::is_in(folder);
    qkv::Seq2Seq::check(folder);
  } catch (const qkv::FormatError&) {
  } catch (const qkv::IoError&) {  // of a recurrent one, whose config is right: there are no weights
  }
  const qkv::MarianConfig config = qkv::Marian::read_config(folder);
  if (config.model_dim % config.encoder_heads != 0 || config.model_dim % config.decoder_heads != 0) __builtin_trap();
  for (const std::int32_t token : {config.end, config.padding, config.start}) {
    if (token < 0 || token >= config.vocab) __builtin_trap();
  }
}
