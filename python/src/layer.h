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

// What layers of every kind have.
struct AnyLayer {
  nb::dict config{};  // the keywords that made it
  bool has_gradients = false;

  virtual ~AnyLayer() = default;
  virtual void visit(const ParameterVisitor& visitor) const = 0;
  virtual void update(const ParameterUpdater& updater) = 0;
};

template <class Core>
struct Layer : AnyLayer {
  Core core;

  Layer(Core made, nb::dict keywords) : core(std::move(made)) { config = std::move(keywords); }
  void visit(const ParameterVisitor& visitor) const override { core.visit(visitor); }
  void update(const ParameterUpdater& updater) override { core.update(updater); }
};

// What a call with save=True gives beside the output.
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
nb::class_<Layer<Core>, AnyLayer> add_layer(nb::module_& module, const char* name, const char* init,
                                            const char* documentation, Read read) {
  nb::class_<Layer<Core>, AnyLayer> layer(module, name, documentation);
  layer.def(
      "__init__",
      [name, read](Layer<Core>* place, const nb::kwargs& given) {
        Keywords keywords(name, given);
        const auto config = read(keywords);
        Weights weights = take_weights(keywords);
        keywords.finish();
        new (place) Layer<Core>(Core(config, weights), nb::dict(given));
      },
      "config"_a, nb::sig(init));
  return layer;
}

}  // namespace qkv::python
