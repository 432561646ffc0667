// Encoder, Decoder and Transformer.
#include <utility>

#include "layer.h"
#include "layer_configs.h"
#include "qkv/layers/transformer.h"

namespace qkv::python {
namespace {

#define QKV_STACK_KEYWORDS                                                                                             \
  "model_dim: int, ff_dim: int, " QKV_HEAD_KEYWORDS                                                                    \
  ", activation: typing.Literal['relu', 'gelu', 'gelu_tanh', 'silu'] = 'relu', epsilon: float = 1e-05, gated: bool = " \
  "False, norm_order: typing.Literal['post', 'pre', 'both', 'parallel'] = 'post', normalization: "                     \
  "typing.Literal['layer', 'rms'] = 'layer', layer_scale: bool = False, "
#define QKV_FORWARD_KEYWORDS \
  "dropout: float = 0.0, seed: int | None = None, threads: int | None = None, save: bool = False"

TransformerLayerConfig read_layer(Keywords& keywords) {
  TransformerLayerConfig config;
  keywords.read("model_dim", config.model_dim);
  keywords.read("ff_dim", config.ff_dim);
  keywords.read("activation", config.activation,
                {{"relu", Activation::relu},
                 {"gelu", Activation::gelu},
                 {"gelu_tanh", Activation::gelu_tanh},
                 {"silu", Activation::silu}});
  keywords.read("epsilon", config.epsilon);
  keywords.read("gated", config.gated);
  keywords.read("norm_order", config.norm_order,
                {{"post", NormOrder::post},
                 {"pre", NormOrder::pre},
                 {"both", NormOrder::both},
                 {"parallel", NormOrder::parallel}});
  keywords.read("normalization", config.normalization, {{"layer", Normalization::layer}, {"rms", Normalization::rms}});
  keywords.read("layer_scale", config.layer_scale);
  read_heads(keywords, config);
  return config;
}

StackConfig read_stack(Keywords& keywords) {
  StackConfig config{.layer = read_layer(keywords)};
  keywords.read("layers", config.layers);
  keywords.read("final_norm", config.final_norm);
  return config;
}

TransformerConfig read_transformer(Keywords& keywords) {
  TransformerConfig config{.layer = read_layer(keywords)};
  keywords.read("encoder_layers", config.encoder_layers);
  keywords.read("decoder_layers", config.decoder_layers);
  keywords.read("final_norms", config.final_norms);
  return config;
}

// A call of any of the three: one or two inputs, and options that say which mask goes where.
template <class Options, class CoreSaved>
struct StacksCall : LayerCall {
  Options options{};
  TensorView offsets[2]{};
  Dropout dropout{};
  bool save = false;
  CoreSaved saved{};

  Sequences sequences(std::size_t i) const { return {input(i), offsets[i]}; }

  void read(Keywords& keywords) {
    keywords.read_threads(options.threads);
    keywords.read("save", save);
    keywords.read_dropout(dropout);
    if (dropout.p != 0 && !save) throw std::invalid_argument("dropout is for training, with save=True");
    keywords.finish();
    others = keywords.arrays();
  }
};

// Gives what forward() of so many inputs gives.
template <class Core, int kInputs, class SomeCall, class Backward>
nb::object run_layer(nb::handle self, const std::shared_ptr<SomeCall>& call, const Backward& backward) {
  auto& core = core_of<Core>(self);
  const auto forward = [&](auto&&... more) {
    if constexpr (kInputs == 1) {
      return core.forward(call->sequences(0), more...);
    } else {
      return core.forward(call->sequences(0), call->sequences(1), more...);
    }
  };
  const double operations =
      layer_operations(call->sequences(0), call->input(0).rank() > 0 ? call->input(0).size(-1) : 0);
  Tensor out;
  auto options = call->options;
  run_released(6 * operations,
               [&] { out = call->save ? forward(options, call->dropout, call->saved) : forward(options); });
  nb::object given = give_array(std::move(out), call->kind());
  if (!call->save) return given;
  return give_saved(given, self, [call, &core, backward, operations](nb::handle grad_out) -> nb::object {
    const Array gradient = take_floats(grad_out, "grad_out");
    std::vector<Tensor> gradients;
    run_released(12 * operations, [&] { gradients = backward(core, *call, call->options, gradient.view); });
    nb::list list;
    for (Tensor& each : gradients) list.append(give_array(std::move(each), call->kind()));
    return nb::tuple(list);
  });
}

template <class StacksCall>
std::shared_ptr<StacksCall> inputs(std::initializer_list<std::pair<nb::handle, const char*>> arrays) {
  auto call = std::make_shared<StacksCall>();
  for (const auto& [array, name] : arrays) call->arrays.push_back(take_floats(array, name));
  return call;
}

nb::object encode(nb::handle self, nb::handle x, const nb::kwargs& given) {
  using EncoderCall = StacksCall<MultiHeadAttentionOptions, EncoderSaved>;
  const auto call = inputs<EncoderCall>({{x, "x"}});
  Keywords keywords("Encoder", given);
  keywords.read("mask", call->options.mask);
  keywords.read("bias", call->options.bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  call->read(keywords);
  return run_layer<Encoder, 1>(
      self, call, [](Encoder& core, const EncoderCall& c, const auto& options, const TensorView& grad_out) {
        std::vector<Tensor> gradients;
        gradients.push_back(core.backward(c.sequences(0), options, c.dropout, c.saved, grad_out));
        return gradients;
      });
}

nb::object decode(nb::handle self, nb::handle x, nb::handle memory, const nb::kwargs& given) {
  using DecoderCall = StacksCall<DecoderLayerOptions, DecoderSaved>;
  const auto call = inputs<DecoderCall>({{x, "x"}, {memory, "memory"}});
  Keywords keywords("Decoder", given);
  keywords.read("mask", call->options.self_mask);
  keywords.read("bias", call->options.self_bias);
  keywords.read("memory_mask", call->options.memory_mask);
  keywords.read("memory_bias", call->options.memory_bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  keywords.read_offsets("memory_offsets", call->offsets[1]);
  call->read(keywords);
  return run_layer<Decoder, 2>(
      self, call, [](Decoder& core, const DecoderCall& c, const auto& options, const TensorView& grad_out) {
        std::vector<Tensor> gradients(2);
        gradients[1] = Tensor::zeros(c.input(1).shape(), c.input(1).dtype());
        gradients[0] =
            core.backward(c.sequences(0), c.sequences(1), options, c.dropout, c.saved, grad_out, gradients[1]);
        return gradients;
      });
}

nb::object transform(nb::handle self, nb::handle source, nb::handle target, const nb::kwargs& given) {
  using TransformerCall = StacksCall<TransformerOptions, TransformerSaved>;
  const auto call = inputs<TransformerCall>({{source, "source"}, {target, "target"}});
  Keywords keywords("Transformer", given);
  keywords.read("source_mask", call->options.source_mask);
  keywords.read("source_bias", call->options.source_bias);
  keywords.read("target_mask", call->options.target_mask);
  keywords.read("target_bias", call->options.target_bias);
  keywords.read("memory_mask", call->options.memory_mask);
  keywords.read("memory_bias", call->options.memory_bias);
  keywords.read_offsets("source_offsets", call->offsets[0]);
  keywords.read_offsets("target_offsets", call->offsets[1]);
  call->read(keywords);
  return run_layer<Transformer, 2>(
      self, call, [](Transformer& core, const TransformerCall& c, const auto& options, const TensorView& grad_out) {
        TransformerGradients found =
            core.backward(c.sequences(0), c.sequences(1), options, c.dropout, c.saved, grad_out);
        std::vector<Tensor> gradients;
        gradients.push_back(std::move(found.source));
        gradients.push_back(std::move(found.target));
        return gradients;
      });
}

}  // namespace

void bind_stacks(nb::module_& module) {
  add_layer<Encoder>(module, "Encoder",
                     "def __init__(self, *, " QKV_STACK_KEYWORDS
                     "layers: int = 6, final_norm: bool = True, " QKV_LAYER_KEYWORDS ") -> None",
                     R"(Encoder layers one after the other: parameters and results of torch.nn.TransformerEncoder.

>>> import numpy, qkv
>>> encoder = qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=16, layers=1)
>>> out, saved = encoder(numpy.ones((1, 3, 8), "f"), save=True)
>>> grad_x, = encoder.backward(saved, numpy.ones_like(out))
>>> encoder.gradients()["layers.0.linear1.weight"].shape
(16, 8)
)",
                     read_stack)
      .def("__call__", &encode, "x"_a, "keywords"_a,
           nb::sig("def __call__(self, x: Array, *, mask: AnyMask = None, bias: AnyBias = None, offsets: Array | "
                   "None = None, " QKV_FORWARD_KEYWORDS ") -> typing.Any"),
           "x [batch, length, model_dim] or [length, model_dim], or ragged: rows [tokens, model_dim] with offsets, "
           "int32 "
           "[batch + 1]. save: gives (out, saved), for backward(), which gives (grad_x,).");
  add_layer<Decoder>(module, "Decoder",
                     "def __init__(self, *, " QKV_STACK_KEYWORDS
                     "layers: int = 6, final_norm: bool = True, " QKV_LAYER_KEYWORDS ") -> None",
                     R"(Decoder layers one after the other: parameters and results of torch.nn.TransformerDecoder.

>>> import numpy, qkv
>>> decoder = qkv.layers.Decoder(model_dim=8, heads=2, ff_dim=16, layers=1)
>>> decoder(numpy.ones((1, 2, 8), "f"), numpy.ones((1, 3, 8), "f")).shape
(1, 2, 8)
)",
                     read_stack)
      .def("__call__", &decode, "x"_a, "memory"_a, "keywords"_a,
           nb::sig("def __call__(self, x: Array, memory: Array, *, mask: AnyMask = None, bias: AnyBias = None, "
                   "memory_mask: AnyMask = None, memory_bias: AnyBias = None, offsets: Array | None = None, "
                   "memory_offsets: Array | None = None, " QKV_FORWARD_KEYWORDS ") -> typing.Any"),
           "x and memory as in Encoder. mask: qkv.Mask.causal() unless another one is given. save: gives "
           "(out, "
           "saved), for backward(), which gives (grad_x, grad_memory).");
  add_layer<Transformer>(
      module, "Transformer",
      "def __init__(self, *, " QKV_STACK_KEYWORDS
      "encoder_layers: int = 6, decoder_layers: int = 6, final_norms: bool = True, " QKV_LAYER_KEYWORDS ") -> None",
      R"(An encoder and a decoder: parameters and results of torch.nn.Transformer.

No embedding, no positions, no output projection.

>>> import numpy, qkv
>>> model = qkv.layers.Transformer(model_dim=8, heads=2, ff_dim=16, encoder_layers=1, decoder_layers=1)
>>> model(numpy.ones((1, 3, 8), "f"), numpy.ones((1, 2, 8), "f")).shape
(1, 2, 8)
)",
      read_transformer)
      .def("__call__", &transform, "source"_a, "target"_a, "keywords"_a,
           nb::sig("def __call__(self, source: Array, target: Array, *, source_mask: AnyMask = None, source_bias: "
                   "AnyBias = None, target_mask: AnyMask = None, target_bias: AnyBias = None, memory_mask: AnyMask = "
                   "None, memory_bias: AnyBias = None, source_offsets: "
                   "Array | None = None, target_offsets: "
                   "Array | None = None, " QKV_FORWARD_KEYWORDS ") -> typing.Any"),
           "source and target as in Encoder. target_mask: qkv.Mask.causal() unless another one is given. "
           "save: "
           "gives "
           "(out, saved), for backward(), which gives (grad_source, grad_target).");
}

}  // namespace qkv::python
