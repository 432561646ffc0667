// What module.cc puts together: one function per file.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_masks(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_derivatives(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_cache(nb::module_& module);
void bind_tokenizer(nb::module_& module);
void bind_embedder(nb::module_& module);
void bind_bert(nb::module_& module);
void bind_translator(nb::module_& module);
void bind_generator(nb::module_& module);
void bind_any_layer(nb::module_& module);
void bind_heads(nb::module_& module);
void bind_stacks(nb::module_& module);
void bind_recurrent(nb::module_& module);
void bind_convolution(nb::module_& module);
void bind_patch_embedding(nb::module_& module);
void bind_pictures(nb::module_& module);
void bind_explain(nb::module_& module);
void bind_training(nb::module_& module);
void bind_process(nb::module_& module);

}  // namespace qkv::python
