// Parameters of layers by name, and what a forward pass keeps.
#include "layer.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <map>
#include <set>

#include "qkv/layers/initial_weights.h"

namespace qkv::python {
namespace {

nb::dict values_of(const AnyLayer& layer) {
  nb::dict values;
  layer.visit([&](const std::string& name, const Parameter& parameter) {
    values[name.c_str()] = give_array(Tensor::copy(parameter.value), Kind::numpy);
  });
  return values;
}

nb::dict gradients_of(const AnyLayer& layer) {
  nb::dict gradients;
  layer.visit([&](const std::string& name, const Parameter& parameter) {
    if (parameter.has_gradient()) gradients[name.c_str()] = give_array(Tensor::copy(parameter.gradient), Kind::numpy);
  });
  return gradients;
}

void load_values(AnyLayer& layer, nb::handle state) {
  if (!PyMapping_Check(state.ptr()) || !nb::hasattr(state, "items")) {
    throw TypeError("state must be a dict of arrays by name, got " + name_of_type(state));
  }
  std::map<std::string, Array> given;
  for (nb::handle item : nb::object(nb::getattr(state, "items")())) {
    const nb::tuple pair = nb::cast<nb::tuple>(item);
    const std::string name = take_text(nb::object(pair[0]), "a name in state");
    given.emplace(name, take_floats(nb::object(pair[1]), name));
  }
  std::set<std::string> known;
  layer.visit([&](const std::string& name, const Parameter& parameter) {
    known.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) throw std::invalid_argument(fmt::format("load_state_dict: {} is missing", name));
    const Dims &shape = found->second.view.shape(), &wanted = parameter.value.shape();
    if (shape == wanted) return;
    throw std::invalid_argument(
        fmt::format("load_state_dict: {} must be {}, got {}", name, to_string(wanted), to_string(shape)));
  });
  for (const auto& [name, array] : given) {
    if (!known.contains(name))
      throw std::invalid_argument(fmt::format("load_state_dict: {} is no parameter here", name));
  }
  layer.update([&](const std::string& name, Parameter& parameter) { convert(given.at(name).view, parameter.value); });
}

void clear_gradients(AnyLayer& layer) {
  layer.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
}

nb::object backward_of(nb::handle self, const Saved& saved, nb::handle grad_out) {
  auto& layer = nb::cast<AnyLayer&>(self);
  if (!layer.has_gradients) clear_gradients(layer);
  layer.has_gradients = true;
  if (!saved.layer.is(self)) throw std::invalid_argument("backward: saved is of another layer");
  return saved.backward(grad_out);
}

// (rebuild, (type, config, state)) for pickle.
nb::object reduced(nb::handle self) {
  const auto& layer = nb::cast<const AnyLayer&>(self);
  const nb::object rebuild = nb::module_::import_("qkv.layers").attr("_rebuild");
  return nb::make_tuple(rebuild, nb::make_tuple(nb::object(self.attr("__class__")), layer.config, values_of(layer)));
}

}  // namespace

Weights take_weights(Keywords& keywords) {
  std::optional<std::uint64_t> seed;
  Dtype dtype = Dtype::f32;
  keywords.read("seed", seed);
  keywords.read("dtype", dtype, {{"float32", Dtype::f32}, {"float64", Dtype::f64}});
  return initial_weights(seed.value_or(0), dtype);
}

void bind_any_layer(nb::module_& module) {
  nb::class_<Saved>(module, "Saved", "What a call of a layer with save=True keeps for backward().");
  nb::class_<AnyLayer>(module, "Layer", "What all layers have: parameters, and their gradients.")
      .def("state_dict", &values_of, nb::sig("def state_dict(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
           "The parameters by torch's names (copies).")
      .def(
          "load_state_dict", &load_values, "state"_a,
          nb::sig("def load_state_dict(self, state: collections.abc.Mapping[str, Array]) -> None"),
          "Copies arrays into the parameters, in their type. ValueError for names that are missing or unknown, and for "
          "other shapes; nothing has changed then.")
      .def("gradients", &gradients_of, nb::sig("def gradients(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"),
           "What backward() added up for each parameter since zero_grad() (copies).")
      .def("zero_grad", &clear_gradients, nb::sig("def zero_grad(self) -> None"), "Makes all gradients zero.")
      .def("backward", &backward_of, "saved"_a, "grad_out"_a,
           nb::sig("def backward(self, saved: Saved, grad_out: Array) -> tuple[typing.Any, ...]"),
           "From what a call with save=True kept and the gradient of its output: the gradients of its inputs. Adds to "
           "gradients().")
      .def("__reduce__", &reduced, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

}  // namespace qkv::python
