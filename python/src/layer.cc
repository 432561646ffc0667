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

void LayerCall::finish(Keywords& keywords) {
  keywords.read_threads(threads);
  keywords.read("save", save);
  others = keywords.finish();
}

void LayerCall::finish_with_dropout(Keywords& keywords) {
  keywords.read_dropout(dropout);
  finish(keywords);
  if (dropout.p != 0 && !save) throw std::invalid_argument("dropout is for training, with save=True");
}

nb::object give_results(std::vector<Tensor> results, Kind kind, bool as_tuple) {
  nb::list given;
  for (Tensor& result : results) given.append(give_array(std::move(result), kind));
  return as_tuple || nb::len(given) > 1 ? nb::object(nb::tuple(given)) : nb::object(given[0]);
}

std::vector<TensorView> take_gradients(nb::handle grad_out, std::size_t count, std::vector<Array>& arrays) {
  const bool is_tuple = count > 1 && PyTuple_Check(grad_out.ptr());
  const nb::tuple parts = is_tuple ? nb::borrow<nb::tuple>(grad_out) : nb::make_tuple(grad_out);
  if (nb::len(parts) > count) throw std::invalid_argument("backward: grad_out has more parts than there are results");
  std::vector<TensorView> views(count);
  for (std::size_t i = 0; i < nb::len(parts); ++i) {
    const nb::object part = parts[i];
    if (is_tuple && part.is_none()) continue;
    views[i] = arrays.emplace_back(take_floats(part, i == 0 ? "grad_out" : fmt::format("grad_out[{}]", i))).view;
  }
  return views;
}

void bind_any_layer(nb::module_& module) {
  add_class<Saved>(module, "Saved");
  add_class<AnyLayer>(module, "Layer")
      .def("state_dict", &values_of)
      .def("load_state_dict", &load_values, "state"_a)
      .def("gradients", &gradients_of)
      .def("zero_grad", &clear_gradients)
      .def("backward", &backward_of, "saved"_a, "grad_out"_a)
      .def("__reduce__", &reduced);
}

}  // namespace qkv::python
