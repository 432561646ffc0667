// Vit and PictureClassifier.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "qkv/pipelines/picture_classifier.h"

namespace qkv::python {
namespace {

// Of the layers, for a batch of pictures.
double operations_of(const Vit& model, const TensorView& pictures) {
  const VitConfig& config = model.config();
  if (pictures.rank() != 4) return 0;
  const double patches = static_cast<double>(pictures.size(1) * pictures.size(2)) /
                         static_cast<double>(config.patch.height * config.patch.width);
  const auto dim = static_cast<double>(config.model_dim), ff = static_cast<double>(config.ff_dim);
  return 2 * static_cast<double>(pictures.size(0)) * patches * static_cast<double>(config.layers) *
         (4 * dim * dim + 2 * dim * ff);
}

// `run`: forward() or logits() of the model.
template <class Run>
nb::object run_model(const Vit& model, nb::handle pictures, nb::handle threads, const Run& run) {
  const Array array = take_floats(pictures, "pictures");
  VitOptions options{.threads = take_threads(threads)};
  Tensor out;
  run_released(operations_of(model, array.view), [&] { out = run(array.view, options); });
  return give_array(std::move(out), array.kind);
}

nb::list classify(const PictureClassifier& classifier, nb::handle picture, nb::handle top, nb::handle threads) {
  Array array;
  Tensor read;
  if (PyUnicode_Check(picture.ptr())) {
    read = read_picture(take_text(picture, "picture"));
  } else {
    array = take_array(picture, "picture");
    if (array.view.dtype() != Dtype::u8) throw TypeError("picture must be uint8 [height, width, 3], or a file's path");
  }
  const std::int64_t count = take_whole(top, "top");
  VitOptions options{.threads = take_threads(threads)};
  std::vector<ClassProbability> found;
  run_released(kLongOperations,
               [&] { found = classifier.classify(array.view ? array.view : read.view(), count, options); });
  nb::list classes;
  for (const auto& [label, probability] : found)
    classes.append(nb::make_tuple(nb::str(label.data(), label.size()), probability));
  return classes;
}

}  // namespace

void bind_pictures(nb::module_& module) {
  nb::class_<Vit>(module, "_Vit")
      .def("__init__", &load_folder<Vit>, "folder"_a, nb::sig("def __init__(self, folder: str) -> None"))
      .def(
          "forward",
          [](const Vit& model, nb::handle pictures, nb::handle threads) {
            return run_model(model, pictures, threads, [&](const TensorView& view, const VitOptions& options) {
              return model.forward(view, options);
            });
          },
          "pictures"_a, "threads"_a, nb::sig("def forward(self, pictures: Array, threads: int | None) -> typing.Any"))
      .def(
          "logits",
          [](const Vit& model, nb::handle pictures, nb::handle threads) {
            return run_model(model, pictures, threads, [&](const TensorView& view, const VitOptions& options) {
              return model.logits(view, options);
            });
          },
          "pictures"_a, "threads"_a, nb::sig("def logits(self, pictures: Array, threads: int | None) -> typing.Any"))
      .def(
          "labels",
          [](const Vit& model) {
            nb::list labels;
            for (const std::string& label : model.config().labels) labels.append(nb::str(label.data(), label.size()));
            return labels;
          },
          nb::sig("def labels(self) -> list[str]"))
      .def(
          "picture_size",
          [](const Vit& model) { return nb::make_tuple(model.config().picture.height, model.config().picture.width); },
          nb::sig("def picture_size(self) -> tuple[int, int]"));
  nb::class_<PictureClassifier>(module, "_PictureClassifier")
      .def("__init__", &load_folder<PictureClassifier>, "folder"_a, nb::sig("def __init__(self, folder: str) -> None"))
      .def(
          "process",
          [](const PictureClassifier& classifier, nb::handle picture) {
            const Array array = take_array(picture, "picture");
            if (array.view.dtype() != Dtype::u8) throw TypeError("picture must be uint8 [height, width, 3]");
            return give_array(classifier.processor().process(array.view), array.kind);
          },
          "picture"_a, nb::sig("def process(self, picture: Array) -> typing.Any"))
      .def("classify", &classify, "picture"_a, "top"_a, "threads"_a,
           nb::sig(
               "def classify(self, picture: str | Array, top: int, threads: int | None) -> list[tuple[str, float]]"));
}

}  // namespace qkv::python
