// PatchEmbedding.
#include "qkv/layers/patch_embedding.h"

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

// Multiply-adds, of patches that become a thousand numbers.
double operations_of(const TensorView& pictures) { return 1000 * static_cast<double>(pictures.element_count()); }

PatchEmbeddingConfig read_patches(Keywords& keywords) {
  PatchEmbeddingConfig config;
  keywords.read("dim", config.dim, "patch", config.patch, "grid", config.grid, "channels", config.channels);
  return config;
}

nb::object forward_patches(nb::handle self, nb::handle pictures, const nb::kwargs& given) {
  auto& core = core_of<PatchEmbedding>(self);
  const auto call = call_of<LayerCall>({{pictures, "pictures"}});
  Keywords keywords("PatchEmbedding", given);
  call->finish(keywords);
  return run_layer(
      self, call, operations_of(call->input(0)),
      [&](LayerCall& c) { return list_of(core.forward(c.input(0), c.threads)); },
      [&core](LayerCall& c, const std::vector<TensorView>& grad_out) {
        core.backward(c.input(0), grad_out[0], c.threads);
        return list_of();
      });
}

}  // namespace

void bind_patch_embedding(nb::module_& module) {
  add_layer<PatchEmbedding>(module, "PatchEmbedding", read_patches)
      .def("__call__", &forward_patches, "pictures"_a, "keywords"_a);
}

}  // namespace qkv::python
