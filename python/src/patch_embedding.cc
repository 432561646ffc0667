// PatchEmbedding.
#include "qkv/layers/patch_embedding.h"

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

// Multiply-adds, of patches that become a thousand numbers.
double operations_of(const TensorView& pictures) { return 1000 * static_cast<double>(pictures.element_count()); }

nb::object forward_patches(nb::handle self, nb::handle pictures, const nb::kwargs& given) {
  auto& core = core_of<PatchEmbedding>(self);
  const auto call = std::make_shared<LayerCall>();
  call->arrays.push_back(take_floats(pictures, "pictures"));
  Keywords keywords(name_of_type(self), given);
  int threads = 0;
  bool save = false;
  keywords.read_threads(threads);
  keywords.read("save", save);
  keywords.finish();
  Tensor out;
  run_released(operations_of(call->input(0)), [&] { out = core.forward(call->input(0), threads); });
  nb::object result = give_array(std::move(out), call->kind());
  if (!save) return result;
  return give_saved(result, self, [call, threads, &core](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    run_released(2 * operations_of(call->input(0)), [&] { core.backward(call->input(0), gradient.view, threads); });
    return nb::make_tuple();
  });
}

}  // namespace

void bind_patch_embedding(nb::module_& module) {
  add_layer<PatchEmbedding>(
      module, "PatchEmbedding",
      "def __init__(self, *, dim: int, patch: int | tuple[int, int], grid: int | tuple[int, int], "
      "channels: int = 3, " QKV_LAYER_KEYWORDS ") -> None",
      R"(Pictures as tokens: ``out[0] = class_token + position[0]``,
``out[1 + i] = projection(patch i) + position[1 + i]``, row by row of the grid.

patch: its height and width in pixels. grid: the patches of the pictures that positions are learnt for; those of pictures
with others are interpolated, bicubic, as torch.nn.functional.interpolate. Source: Dosovitskiy et al. (2021), section 3.1.

>>> import numpy, qkv
>>> embedding = qkv.layers.PatchEmbedding(dim=8, patch=4, grid=(2, 3))
>>> embedding(numpy.zeros((1, 8, 12, 3), "f")).shape
(1, 7, 8)
)",
      [](Keywords& keywords) {
        PatchEmbeddingConfig config;
        keywords.read("dim", config.dim);
        keywords.read("patch", config.patch);
        keywords.read("grid", config.grid);
        keywords.read("channels", config.channels);
        return config;
      })
      .def("__call__", &forward_patches, "pictures"_a, "keywords"_a,
           nb::sig(
               "def __call__(self, pictures: Array, *, threads: int | None = None, save: bool = False) -> typing.Any"),
           "pictures [batch, height, width, channels] to [batch, 1 + patches, dim]; what is left at the right and at "
           "the bottom is not looked at. save: gives (out, saved), for backward(), which gives (), as pictures have "
           "no gradient.");
}

}  // namespace qkv::python
