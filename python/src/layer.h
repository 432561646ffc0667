// The common part of layers in Python: a config of keywords, parameters by torch's names, and forward passes that keep
// what their backward passes need.
#pragma once

#include <nanobind/nanobind.h>

#include <concepts>
#include <functional>
#include <initializer_list>
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

// The base of all layers.
struct AnyLayer : Parameterized {
  nb::dict config{};  // the keywords that made it
  bool has_gradients = false;
};

template <class Core>
struct Layer : AnyLayer {
  Core core;

  Layer(Core made, nb::dict keywords) : core(std::move(made)) { config = std::move(keywords); }
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(core, scope); }
};

// The second result of a call with save=True.
struct Saved {
  nb::object layer{};
  std::function<nb::object(nb::handle grad_out)> backward{};
};

// The keywords seed and dtype of a new layer.
Weights take_weights(Keywords& keywords);

template <class Core>
Core& core_of(nb::handle layer) {
  return nb::cast<Layer<Core>&>(layer).core;
}

using Inputs = std::initializer_list<std::pair<nb::handle, const char*>>;  // with their names

// A call of a layer: its arguments, kept as long as backward() needs them.
struct LayerCall {
  std::vector<Array> arrays{};  // inputs, in the order of the parameters
  std::vector<Array> others{};  // of keywords
  TensorView offsets[2]{};      // of the inputs that are ragged
  Dropout dropout{};
  int threads = 0;
  bool save = false;

  explicit LayerCall(Inputs inputs) {
    for (const auto& [array, name] : inputs) arrays.push_back(take_floats(array, name));
  }
  const TensorView& input(std::size_t i) const { return arrays[i].view; }
  Sequences sequences(std::size_t i) const { return {input(i), offsets[i]}; }
  // The last of the keywords: threads and save.
  void finish(Keywords& keywords);
  // The same and dropout. ValueError for it without save.
  void finish_with_dropout(Keywords& keywords);
};

// The same with the options of a forward pass and what it saves.
template <class Options, class PassSaved>
struct CallOf : LayerCall {
  Options options{};
  PassSaved saved{};

  using LayerCall::LayerCall;
};

template <class Call>
auto call_of(Inputs inputs) {
  return std::make_shared<Call>(inputs);
}

std::vector<Tensor> list_of(std::same_as<Tensor> auto... tensors) {
  std::vector<Tensor> all;
  (all.push_back(std::move(tensors)), ...);
  return all;
}

// One result alone, several as a tuple.
nb::object give_results(std::vector<Tensor> results, Kind kind, bool as_tuple);
// Views of the gradients in `grad_out`: one, or of a tuple at most `count`, where None is an empty view.
std::vector<TensorView> take_gradients(nb::handle grad_out, std::size_t count, std::vector<Array>& arrays);

// Calls the layer `self`: the tensors that `forward` gives for `call`, and with save a Saved for backward(). `backward`
// gives the gradients of the inputs from the gradients of the first `outputs` results.
template <class Call, class Forward, class Backward>
nb::object run_layer(nb::handle self, const std::shared_ptr<Call>& call, double operations, const Forward& forward,
                     const Backward& backward, std::size_t outputs = 1) {
  const Kind kind = call->arrays.front().kind;
  nb::object given = give_results(run_released(operations, [&] { return forward(*call); }), kind, outputs > 1);
  if (!call->save) return given;
  const auto run_backward = [=](nb::handle grad_out) -> nb::object {
    std::vector<Array> arrays;
    const auto views = take_gradients(grad_out, outputs, arrays);
    return give_results(run_released(3 * operations, [&] { return backward(*call, views); }), kind, true);
  };
  return nb::make_tuple(given, Saved{nb::borrow(self), run_backward});
}

// A class of layers: `read` fills the config from keywords.
template <class Core, class Read>
auto add_layer(nb::module_& module, const char* name, Read read) {
  auto layer = add_class<Layer<Core>, AnyLayer>(module, name);
  layer.def(
      "__init__",
      [name, read](Layer<Core>* place, const nb::kwargs& given) {
        Keywords keywords(name, given);
        const auto config = read(keywords);
        Weights weights = take_weights(keywords);
        keywords.finish();
        new (place) Layer<Core>(Core(config, weights), nb::dict(given));
      },
      "config"_a);
  return layer;
}

}  // namespace qkv::python
