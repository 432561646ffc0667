// Rnn, Lstm and Gru.
#include "lab/layers/recurrent.h"

#include <fmt/format.h>

#include "layer.h"
#include "layer_configs.h"

namespace qkv::python {
namespace {

template <class Config>
Config read_config(Keywords& keywords) {
  Config config;
  keywords.read("input_size", config.in);
  keywords.read("hidden", config.hidden);
  keywords.read("layers", config.layers);
  keywords.read("directions", config.directions);
  keywords.read("bias", config.bias);
  if constexpr (requires { config.activation; }) {
    keywords.read("activation", config.activation, {{"tanh", RnnActivation::tanh}, {"relu", RnnActivation::relu}});
  }
  if constexpr (requires { config.reset; }) {
    keywords.read("reset", config.reset,
                  {{"after_product", GruReset::after_product}, {"before_product", GruReset::before_product}});
  }
  return config;
}

struct RecurrentCall : LayerCall {
  TensorView offsets{};
  RecurrentStates<TensorView> initial{};
  Dropout dropout{};
  int threads = 0;
  RecurrentSaved saved{};

  Sequences x() const { return {input(0), offsets}; }
};

// Multiply-adds of forward().
double operations_of(const RecurrentConfig& config, const TensorView& x) {
  const auto in = static_cast<double>(config.in), hidden = static_cast<double>(config.hidden);
  const double gates = config.cell == RecurrentCell::lstm ? 4 : 3, tokens = static_cast<double>(x.element_count()) / in;
  return tokens * config.directions * gates * hidden *
         (in + hidden + (config.layers - 1) * (config.directions + 1) * hidden);
}

// `given`: the gradient of the outputs, or a tuple with those of the states, where None is zero.
nb::object backward(Recurrent& layer, const RecurrentCall& call, nb::handle given) {
  constexpr const char* kNames[] = {"grad_out", "grad_out[1]", "grad_out[2]"};
  std::vector<Array> arrays;
  RecurrentGradientsIn from;
  TensorView* const places[] = {&from.out, &from.states.hidden, &from.states.cell};
  const nb::tuple all = nb::isinstance<nb::tuple>(given) ? nb::borrow<nb::tuple>(given) : nb::make_tuple(given);
  const std::size_t most = layer.config().cell == RecurrentCell::lstm ? 3 : 2;
  if (all.size() > most) throw std::invalid_argument("backward: grad_out has more parts than there are results");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const nb::object part = all[i];
    if (!part.is_none()) *places[i] = arrays.emplace_back(take_floats(part, kNames[i])).view;
  }
  std::vector<TensorView> inputs{call.input(0)};
  for (const TensorView& state : {call.initial.hidden, call.initial.cell}) {
    if (state) inputs.push_back(state);
  }
  InputGradients to(inputs);
  RecurrentGradientsOut into{.x = to[0]};
  std::size_t next = 1;
  if (call.initial.hidden) into.initial.hidden = to[next++];
  if (call.initial.cell) into.initial.cell = to[next++];
  run_released(3 * operations_of(layer.config(), call.input(0)),
               [&] { layer.backward(call.x(), call.initial, call.dropout, call.saved, from, into, call.threads); });
  return to.give(call.kind());
}

template <class Core>
nb::object forward_recurrent(nb::handle self, nb::handle x, const nb::kwargs& given) {
  auto& layer = core_of<Core>(self);
  const auto call = std::make_shared<RecurrentCall>();
  call->arrays.push_back(take_floats(x, "x"));
  Keywords keywords(name_of_type(self), given);
  bool save = false;
  keywords.read_floats("hidden", call->initial.hidden);
  if (layer.config().cell == RecurrentCell::lstm) keywords.read_floats("cell", call->initial.cell);
  keywords.read_offsets("offsets", call->offsets);
  keywords.read_threads(call->threads);
  keywords.read("save", save);
  keywords.read_dropout(call->dropout);
  if (call->dropout.p != 0 && !save) throw std::invalid_argument("dropout is for training, with save=True");
  keywords.finish();
  call->others = keywords.arrays();

  RecurrentOutput output;
  run_released(operations_of(layer.config(), call->input(0)), [&] {
    output = save ? layer.forward(call->x(), call->initial, call->dropout, call->saved, call->threads)
                  : layer.forward(call->x(), call->initial, call->threads);
  });
  nb::list results;
  results.append(give_array(std::move(output.out), call->kind()));
  results.append(give_array(std::move(output.states.hidden), call->kind()));
  if (layer.config().cell == RecurrentCell::lstm)
    results.append(give_array(std::move(output.states.cell), call->kind()));
  if (!save) return nb::tuple(results);
  return give_saved(nb::tuple(results), self,
                    [call, &layer](nb::handle grad_out) { return backward(layer, *call, grad_out); });
}

template <class Core, class Config>
void bind(nb::module_& module, const char* name, const char* init, const char* forward_signature,
          const char* documentation) {
  add_layer<Core>(module, name, init, documentation, read_config<Config>)
      .def("__call__", &forward_recurrent<Core>, "x"_a, "keywords"_a, nb::sig(forward_signature),
           "x [batch, length, in] or [length, in], or ragged: rows [tokens, in] with offsets, int32 [batch + 1]. Gives "
           "the "
           "outputs [..., directions * hidden] and the states after the last step, [layers * directions, batch, "
           "hidden]; "
           "an initial state that is not given is zero. save: gives (those, saved), for backward(), which takes the "
           "gradient of the outputs, or a tuple with those of the states, and gives those of x and of the initial "
           "states "
           "that were given.");
}

#define QKV_RECURRENT_KEYWORDS "hidden: int, layers: int = 1, directions: int = 1, bias: bool = True"
#define QKV_RECURRENT_FORWARD                                                                                       \
  "offsets: Array | None = None, dropout: float = 0.0, seed: int | None = None, threads: int | None = None, save: " \
  "bool = False"                                                                                                    \
  ") -> typing.Any"

}  // namespace

void bind_recurrent(nb::module_& module) {
  bind<Rnn, RnnConfig>(
      module, "Rnn",
      "def __init__(self, *, input_size: int, " QKV_RECURRENT_KEYWORDS
      ", activation: typing.Literal['tanh', 'relu'] = 'tanh', " QKV_LAYER_KEYWORDS ") -> None",
      "def __call__(self, x: Array, *, hidden: Array | None = None, " QKV_RECURRENT_FORWARD,
      "``h' = tanh(W_x x + b_x + W_h h + b_h)``: parameters and results of torch.nn.RNN (Elman, 1990).");
  bind<Lstm, LstmConfig>(
      module, "Lstm",
      "def __init__(self, *, input_size: int, " QKV_RECURRENT_KEYWORDS ", " QKV_LAYER_KEYWORDS ") -> None",
      "def __call__(self, x: Array, *, hidden: Array | None = None, cell: Array | None = None, " QKV_RECURRENT_FORWARD,
      R"(Long short-term memory: parameters and results of torch.nn.LSTM (Hochreiter and Schmidhuber, 1997).

>>> import numpy, qkv
>>> lstm = qkv.lab.Lstm(input_size=3, hidden=4)
>>> out, hidden, cell = lstm(numpy.ones((2, 5, 3), "f"))
>>> out.shape, hidden.shape
((2, 5, 4), (1, 2, 4))
)");
  bind<Gru, GruConfig>(
      module, "Gru",
      "def __init__(self, *, input_size: int, " QKV_RECURRENT_KEYWORDS
      ", reset: typing.Literal['after_product', 'before_product'] = 'after_product', " QKV_LAYER_KEYWORDS ") -> None",
      "def __call__(self, x: Array, *, hidden: Array | None = None, " QKV_RECURRENT_FORWARD,
      "Gated recurrent unit: parameters and results of torch.nn.GRU (Cho et al., 2014); reset: where the reset gate is "
      "applied, torch's after_product.");
}

}  // namespace qkv::python
