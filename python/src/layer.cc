// Parameters of layers by name, and what a forward pass keeps.
#include "layer.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <map>
#include <set>

#include "qkv/layers/initial_weights.h"

namespace qkv::python {

nb::dict values_of(const Visit& visit) {
  nb::dict values;
  visit([&](const std::string& name, const Parameter& parameter) {
    values[name.c_str()] = give_array(Tensor::copy(parameter.value), Kind::numpy);
  });
  return values;
}

nb::dict gradients_of(const Visit& visit) {
  nb::dict gradients;
  visit([&](const std::string& name, const Parameter& parameter) {
    if (parameter.has_gradient()) gradients[name.c_str()] = give_array(Tensor::copy(parameter.gradient), Kind::numpy);
  });
  return gradients;
}

void load_values(const Visit& visit, const Update& update, nb::handle state) {
  if (!PyMapping_Check(state.ptr()) || !nb::hasattr(state, "items")) {
    throw TypeError("state must be a dict of arrays by name, got " + name_of_type(state));
  }
  std::map<std::string, Array> given;
  for (nb::handle item : nb::object(nb::getattr(state, "items")())) {
    const nb::tuple pair = nb::cast<nb::tuple>(item);
    const std::string name = take_text(nb::object(pair[0]), "a name in state");
    if (name.ends_with("num_batches_tracked")) continue;  // of torch's batch norms; nothing here depends on it
    given.emplace(name, take_floats(nb::object(pair[1]), name));
  }
  std::set<std::string> known;
  visit([&](const std::string& name, const Parameter& parameter) {
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
  update([&](const std::string& name, Parameter& parameter) { convert(given.at(name).view, parameter.value); });
}

void clear_gradients(const Update& update) {
  update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
}

Weights take_weights(Keywords& keywords) {
  std::optional<std::uint64_t> seed;
  Dtype dtype = Dtype::f32;
  keywords.read("seed", seed);
  keywords.read("dtype", dtype, {{"float32", Dtype::f32}, {"float64", Dtype::f64}});
  return initial_weights(seed.value_or(0), dtype);
}

nb::object reduced(nb::handle layer, const nb::dict& config, const nb::dict& state) {
  const nb::object rebuild = nb::module_::import_("qkv.layers").attr("_rebuild");
  return nb::make_tuple(rebuild, nb::make_tuple(nb::object(nb::getattr(layer, "__class__")), config, state));
}

nb::object run_backward(nb::handle layer, const Saved& saved, nb::handle grad_out) {
  if (!saved.layer.is(layer)) throw std::invalid_argument("backward: saved is of another layer");
  return saved.backward(grad_out);
}

void bind_saved(nb::module_& module) {
  nb::class_<Saved>(module, "Saved", "What a call of a layer with save=True keeps for backward().");
}

}  // namespace qkv::python
