// Encoder, Decoder and Transformer.
#include <utility>

#include "layer.h"
#include "layer_configs.h"
#include "qkv/layers/transformer.h"

namespace qkv::python {
namespace {

TransformerLayerConfig read_layer(Keywords& keywords) {
  TransformerLayerConfig config;
  keywords.read("model_dim", config.model_dim, "ff_dim", config.ff_dim, "epsilon", config.epsilon, "gated",
                config.gated, "layer_scale", config.layer_scale);
  keywords.read("activation", config.activation,
                {{"relu", Activation::relu},
                 {"gelu", Activation::gelu},
                 {"gelu_tanh", Activation::gelu_tanh},
                 {"silu", Activation::silu}});
  keywords.read("norm_order", config.norm_order,
                {{"post", NormOrder::post},
                 {"pre", NormOrder::pre},
                 {"both", NormOrder::both},
                 {"parallel", NormOrder::parallel}});
  keywords.read("normalization", config.normalization, {{"layer", Normalization::layer}, {"rms", Normalization::rms}});
  read_heads(keywords, config);
  return config;
}

StackConfig read_stack(Keywords& keywords) {
  StackConfig config{.layer = read_layer(keywords)};
  keywords.read("layers", config.layers, "final_norm", config.final_norm);
  return config;
}

TransformerConfig read_transformer(Keywords& keywords) {
  TransformerConfig config{.layer = read_layer(keywords)};
  keywords.read("encoder_layers", config.encoder_layers, "decoder_layers", config.decoder_layers, "final_norms",
                config.final_norms);
  return config;
}

double operations_of(const LayerCall& call) {
  return 6 * layer_operations(call.sequences(0), call.input(0).rank() > 0 ? call.input(0).size(-1) : 0);
}

// The rest of a call that reads these inputs; `backward` is called with the gradient of its output.
template <class Call, class Core, class Backward, std::size_t... kInput>
nb::object run_stack(nb::handle self, const std::shared_ptr<Call>& call, Keywords& keywords, const Core& core,
                     std::index_sequence<kInput...>, const Backward& backward) {
  call->finish_with_dropout(keywords);
  call->options.threads = call->threads;
  return run_layer(
      self, call, operations_of(*call),
      [&](Call& c) {
        return list_of(c.save ? core.forward(c.sequences(kInput)..., c.options, c.dropout, c.saved)
                              : core.forward(c.sequences(kInput)..., c.options));
      },
      [backward](Call& c, const std::vector<TensorView>& grad_out) { return backward(c, grad_out[0]); });
}

constexpr std::make_index_sequence<1> kOneInput;
constexpr std::make_index_sequence<2> kTwoInputs;

nb::object encode(nb::handle self, nb::handle x, const nb::kwargs& given) {
  using Call = CallOf<MultiHeadAttentionOptions, EncoderSaved>;
  auto& core = core_of<Encoder>(self);
  const auto call = call_of<Call>({{x, "x"}});
  Keywords keywords("Encoder", given);
  keywords.read("mask", call->options.mask, "bias", call->options.bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  return run_stack(self, call, keywords, core, kOneInput, [&core](Call& c, const TensorView& grad_out) {
    return list_of(core.backward(c.sequences(0), c.options, c.dropout, c.saved, grad_out));
  });
}

nb::object decode(nb::handle self, nb::handle x, nb::handle memory, const nb::kwargs& given) {
  using Call = CallOf<DecoderLayerOptions, DecoderSaved>;
  auto& core = core_of<Decoder>(self);
  const auto call = call_of<Call>({{x, "x"}, {memory, "memory"}});
  DecoderLayerOptions& options = call->options;
  Keywords keywords("Decoder", given);
  keywords.read("mask", options.self_mask, "bias", options.self_bias, "memory_mask", options.memory_mask, "memory_bias",
                options.memory_bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  keywords.read_offsets("memory_offsets", call->offsets[1]);
  return run_stack(self, call, keywords, core, kTwoInputs, [&core](Call& c, const TensorView& grad_out) {
    Tensor to_memory = Tensor::zeros(c.input(1).shape(), c.input(1).dtype());
    Tensor to_x = core.backward(c.sequences(0), c.sequences(1), c.options, c.dropout, c.saved, grad_out, to_memory);
    return list_of(std::move(to_x), std::move(to_memory));
  });
}

nb::object transform(nb::handle self, nb::handle source, nb::handle target, const nb::kwargs& given) {
  using Call = CallOf<TransformerOptions, TransformerSaved>;
  auto& core = core_of<Transformer>(self);
  const auto call = call_of<Call>({{source, "source"}, {target, "target"}});
  TransformerOptions& options = call->options;
  Keywords keywords("Transformer", given);
  keywords.read("source_mask", options.source_mask, "source_bias", options.source_bias, "target_mask",
                options.target_mask, "target_bias", options.target_bias, "memory_mask", options.memory_mask,
                "memory_bias", options.memory_bias);
  keywords.read_offsets("source_offsets", call->offsets[0]);
  keywords.read_offsets("target_offsets", call->offsets[1]);
  return run_stack(self, call, keywords, core, kTwoInputs, [&core](Call& c, const TensorView& grad_out) {
    auto [to_source, to_target] =
        core.backward(c.sequences(0), c.sequences(1), c.options, c.dropout, c.saved, grad_out);
    return list_of(std::move(to_source), std::move(to_target));
  });
}

}  // namespace

void bind_stacks(nb::module_& module) {
  add_layer<Encoder>(module, "Encoder", read_stack).def("__call__", &encode, "x"_a, "keywords"_a);
  add_layer<Decoder>(module, "Decoder", read_stack).def("__call__", &decode, "x"_a, "memory"_a, "keywords"_a);
  add_layer<Transformer>(module, "Transformer", read_transformer)
      .def("__call__", &transform, "source"_a, "target"_a, "keywords"_a);
}

}  // namespace qkv::python
