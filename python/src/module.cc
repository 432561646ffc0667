// The extension qkv._qkv.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "lab/models/recurrent_family.h"

NB_MODULE(_qkv, module) {
  using namespace qkv::python;
  bind_errors(module);
  bind_masks(module);
  bind_attention(module);
  bind_tensors(module);
  bind_plan(module);
  bind_cache(module);
  bind_tokenizer(module);
  bind_embedder(module);
  bind_text_encoder(module);
  bind_translator(module);
  bind_generator(module);
  bind_texts(module);
  bind_any_layer(module);
  bind_heads(module);
  bind_stacks(module);
  qkv::add_recurrent_family();
  bind_recurrent(module);
  bind_convolution(module);
  bind_patch_embedding(module);
  bind_pictures(module);
  bind_explain(module);
  bind_training(module);
  bind_certify(module);
  bind_process(module);
}
