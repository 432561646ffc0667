// Rnn, Lstm and Gru.
#include "lab/layers/recurrent.h"

#include <fmt/format.h>

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

// A class of its own for Python; without an option for another cell it has this one.
template <RecurrentCell kUsual>
struct RecurrentOf : Recurrent {
  using Recurrent::Recurrent;
};

template <RecurrentCell kUsual>
RecurrentConfig read_config(Keywords& keywords) {
  RecurrentConfig config{.cell = kUsual};
  keywords.read("input_size", config.in, "hidden", config.hidden, "layers", config.layers, "directions",
                config.directions, "bias", config.bias);
  if constexpr (kUsual == RecurrentCell::rnn_tanh) {
    keywords.read("activation", config.cell, {{"tanh", RecurrentCell::rnn_tanh}, {"relu", RecurrentCell::rnn_relu}});
  }
  return config;
}

using RecurrentCall = CallOf<RecurrentStates<TensorView>, RecurrentSaved>;  // options: the initial states

// Multiply-adds of forward().
double operations_of(const RecurrentConfig& config, const TensorView& x) {
  const auto in = static_cast<double>(config.in), hidden = static_cast<double>(config.hidden);
  const double gates = config.cell == RecurrentCell::lstm ? 4 : 3, tokens = static_cast<double>(x.element_count()) / in;
  return tokens * config.directions * gates * hidden *
         (in + hidden + (config.layers - 1) * (config.directions + 1) * hidden);
}

template <class Core>
nb::object forward_recurrent(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& layer = core_of<Core>(self);
  const bool has_cells = layer.config().cell == RecurrentCell::lstm;
  const auto call = call_of<RecurrentCall>({{x, "x"}});
  Keywords keywords(name_of_type(self), given);
  keywords.read_floats("hidden", call->options.hidden);
  if (has_cells) keywords.read_floats("cell", call->options.cell);
  keywords.read_offsets("offsets", call->offsets[0]);
  call->finish_with_dropout(keywords);
  return run_layer(
      self, call, operations_of(layer.config(), call->input(0)),
      [&](RecurrentCall& c) {
        RecurrentOutput output = c.save ? layer.forward(c.sequences(0), c.options, c.dropout, c.saved, c.threads)
                                        : layer.forward(c.sequences(0), c.options, c.threads);
        std::vector<Tensor> results = list_of(std::move(output.out), std::move(output.states.hidden));
        if (has_cells) results.push_back(std::move(output.states.cell));
        return results;
      },
      [&layer](RecurrentCall& c, const std::vector<TensorView>& grad_out) {
        RecurrentGradientsIn from{.out = grad_out[0]};
        from.states.hidden = grad_out[1];
        if (grad_out.size() > 2) from.states.cell = grad_out[2];
        std::vector<Tensor> to;
        for (const TensorView& view : {c.input(0), c.options.hidden, c.options.cell}) {
          if (view) to.push_back(Tensor::zeros(view.shape(), view.dtype()));
        }
        RecurrentGradientsOut into{.x = to[0]};
        if (c.options.hidden) into.initial.hidden = to[1];
        if (c.options.cell) into.initial.cell = to.back();
        layer.backward(c.sequences(0), c.options, c.dropout, c.saved, from, into, c.threads);
        return to;
      },
      has_cells ? 3 : 2);
}

template <RecurrentCell kUsual>
void bind(nb::module_& module, const char* name) {
  using Core = RecurrentOf<kUsual>;
  add_layer<Core>(module, name, read_config<kUsual>).def("__call__", &forward_recurrent<Core>, "x"_a, "keywords"_a);
}

}  // namespace

void bind_recurrent(nb::module_& module) {
  bind<RecurrentCell::rnn_tanh>(module, "Rnn");
  bind<RecurrentCell::lstm>(module, "Lstm");
  bind<RecurrentCell::gru>(module, "Gru");
}

}  // namespace qkv::python
