// What sets one kind of encoder-decoder Transformer apart from another; all have the same keys and names.
#pragma once

#include "models/model_kinds.h"
#include "qkv/models/transformer_encoder_decoder.h"

namespace qkv::inline models {

struct EncoderDecoderKind {
  const char* architecture;  // transformers' class; nullptr: no class of it, config.json has all that sets it apart
  TransformerEncoderDecoderKind kind = TransformerEncoderDecoderKind::marian;
  NormOrder norm_order = NormOrder::post;
  bool two_tables = false;  // each side may have a table of its own
  // What the kind means for embeddings and for what is written.
  bool sinusoids = false;  // else each side learns a table of positions
  bool embedding_norm = false;
  bool excludes_padding = false;
};

// The first that means the same.
const EncoderDecoderKind& meaning_of(TransformerEncoderDecoderKind kind);

}  // namespace qkv::inline models
