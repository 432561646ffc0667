// What all layers have in Python: a config of keywords, parameters by torch's names, and forward passes that keep what
// their backward passes need.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"

namespace qkv::python {

template <class Core>
struct Layer {
  Core core;
  nb::dict config{};  // the keywords that made it
  bool has_gradients = false;
};

// What a call with save=True gives beside the output.
struct Saved {
  nb::object layer{};
  std::function<nb::object(nb::handle grad_out)> backward{};
};

using Visit = std::function<void(const ParameterVisitor&)>;
using Update = std::function<void(const ParameterUpdater&)>;

// Copies of the values, or of the gradients of those that have one, by name.
nb::dict values_of(const Visit& visit);
nb::dict gradients_of(const Visit& visit);
// Copies arrays into the values. ValueError, naming some, for names that are missing or unknown; for another shape.
void load_values(const Visit& visit, const Update& update, nb::handle state);
// Makes a gradient, zero, for each parameter.
void clear_gradients(const Update& update);

// The keywords seed and dtype of a new layer.
Weights take_weights(Keywords& keywords);
// (rebuild, (type, config, state)) for pickle.
nb::object reduced(nb::handle layer, const nb::dict& config, const nb::dict& state);

// ValueError unless `saved` is of this layer.
nb::object run_backward(nb::handle layer, const Saved& saved, nb::handle grad_out);

template <class Core>
Core& core_of(nb::handle layer) {
  return nb::cast<Layer<Core>&>(layer).core;
}

// A call of a layer: its inputs and results, for as long as backward() needs them.
struct LayerCall {
  std::vector<Array> arrays{};  // inputs, in the order of the parameters
  std::vector<Array> others{};  // of keywords

  const TensorView& input(std::size_t i) const { return arrays[i].view; }
  Kind kind() const { return arrays.front().kind; }
};

// (out, saved), as a call with save=True gives them.
template <class Backward>
nb::object give_saved(nb::object out, nb::handle layer, Backward backward) {
  return nb::make_tuple(std::move(out), Saved{nb::borrow(layer), std::move(backward)});
}

// Zeros of the shapes of these inputs, and what they become, as a tuple.
class InputGradients {
 public:
  explicit InputGradients(std::vector<TensorView> inputs) {
    for (const TensorView& input : inputs) tensors_.push_back(Tensor::zeros(input.shape(), input.dtype()));
  }
  Tensor& operator[](std::size_t i) { return tensors_[i]; }
  nb::tuple give(Kind kind) {
    nb::list given;
    for (Tensor& tensor : tensors_) given.append(give_array(std::move(tensor), kind));
    return nb::tuple(given);
  }

 private:
  std::vector<Tensor> tensors_{};
};

// A class of layers: `read` fills the config from keywords.
template <class Core, class Read>
nb::class_<Layer<Core>> add_layer(nb::module_& module, const char* name, const char* init, const char* documentation,
                                  Read read) {
  const auto visit_of = [](const Core& core) {
    return Visit([&core](const ParameterVisitor& visitor) { core.visit(visitor); });
  };
  const auto update_of = [](Core& core) {
    return Update([&core](const ParameterUpdater& updater) { core.update(updater); });
  };
  nb::class_<Layer<Core>> layer(module, name, documentation);
  layer
      .def(
          "__init__",
          [name, read](Layer<Core>* place, const nb::kwargs& given) {
            Keywords keywords(name, given);
            const auto config = read(keywords);
            Weights weights = take_weights(keywords);
            keywords.finish();
            new (place) Layer<Core>{Core(config, weights), nb::dict(given)};
          },
          "config"_a, nb::sig(init))
      .def(
          "state_dict", [visit_of](const Layer<Core>& self) { return values_of(visit_of(self.core)); },
          nb::sig("def state_dict(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "The parameters by torch's names (copies).")
      .def(
          "load_state_dict",
          [visit_of, update_of](Layer<Core>& self, nb::handle state) {
            load_values(visit_of(self.core), update_of(self.core), state);
          },
          "state"_a, nb::sig("def load_state_dict(self, state: collections.abc.Mapping[str, Array]) -> None"),
          "Copies arrays into the parameters, in their type. ValueError for names that are missing or unknown, and for "
          "other shapes; nothing has changed then.")
      .def(
          "gradients", [visit_of](const Layer<Core>& self) { return gradients_of(visit_of(self.core)); },
          nb::sig("def gradients(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
          "What backward() added up for each parameter since zero_grad() (copies).")
      .def(
          "zero_grad", [update_of](Layer<Core>& self) { clear_gradients(update_of(self.core)); },
          nb::sig("def zero_grad(self) -> None"), "Makes all gradients zero.")
      .def(
          "backward",
          [update_of](nb::handle self, const Saved& saved, nb::handle grad_out) {
            auto& layer_of_self = nb::cast<Layer<Core>&>(self);
            if (!layer_of_self.has_gradients) clear_gradients(update_of(layer_of_self.core));
            layer_of_self.has_gradients = true;
            return run_backward(self, saved, grad_out);
          },
          "saved"_a, "grad_out"_a,
          nb::sig("def backward(self, saved: Saved, grad_out: Array) -> tuple[typing.Any, ...]"),
          "From what a call with save=True kept and the gradient of its output: the gradients of its inputs. Adds to "
          "gradients().")
      .def(
          "__reduce__",
          [visit_of](nb::handle self) {
            const auto& layer_of_self = nb::cast<const Layer<Core>&>(self);
            return reduced(self, layer_of_self.config, values_of(visit_of(layer_of_self.core)));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
  return layer;
}

}  // namespace qkv::python
