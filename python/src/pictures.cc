// Vit and PictureClassifier.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "generation.h"
#include "qkv/pipelines/picture_classifier.h"

namespace qkv::python {
namespace {

// The operations of the layers for a batch of pictures.
double operations_of(const Vit& model, const TensorView& pictures) {
  const VitConfig& config = model.config();
  if (pictures.rank() != 4) return 0;
  const double patches = static_cast<double>(pictures.size(1) * pictures.size(2)) /
                         static_cast<double>(config.patch.height * config.patch.width);
  return layers_operations(config, static_cast<double>(pictures.size(0)) * patches);
}

// forward() or logits() of the model.
template <auto kRun>
nb::object run_model(const Vit& model, nb::handle pictures, nb::handle threads) {
  const Array array = take_floats(pictures, "pictures");
  VitOptions options{.threads = take_threads(threads)};
  const auto run = [&] { return (model.*kRun)(array.view, options, nullptr); };
  return give_array(run_released(operations_of(model, array.view), run), array.kind);
}

Array take_picture(nb::handle picture, const char* rule) {
  Array array = take_array(picture, "picture");
  if (array.view.dtype() != Dtype::u8) throw TypeError(rule);
  return array;
}

nb::list classify(const PictureClassifier& classifier, nb::handle picture, nb::handle top, nb::handle threads) {
  Array array;
  Tensor read;
  if (PyUnicode_Check(picture.ptr())) {
    read = read_picture(take_text(picture, "picture"));
  } else {
    array = take_picture(picture, "picture must be uint8 [height, width, 3], or a file's path");
  }
  const std::int64_t count = take_whole(top, "top");
  VitOptions options{.threads = take_threads(threads)};
  return classes_of(
      run_released([&] { return classifier.classify(array.view ? array.view : read.view(), count, options); }));
}

}  // namespace

void bind_pictures(nb::module_& module) {
  add_class<Vit>(module, "_Vit")
      .def("__init__", &load_folder<Vit>, "folder"_a)
      .def("forward", &run_model<&Vit::forward>, "pictures"_a, "threads"_a)
      .def("logits", &run_model<&Vit::logits>, "pictures"_a, "threads"_a)
      .def("labels", [](const Vit& model) { return model.config().labels; })
      .def("picture_size", [](const Vit& model) {
        return nb::make_tuple(model.config().picture.height, model.config().picture.width);
      });
  add_class<PictureClassifier>(module, "_PictureClassifier")
      .def("__init__", &load_folder<PictureClassifier>, "folder"_a)
      .def(
          "process",
          [](const PictureClassifier& classifier, nb::handle picture) {
            const Array array = take_picture(picture, "picture must be uint8 [height, width, 3]");
            return give_array(classifier.processor().process(array.view), array.kind);
          },
          "picture"_a)
      .def("classify", &classify, "picture"_a, "top"_a, "threads"_a);
}

}  // namespace qkv::python
