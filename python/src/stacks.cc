// Encoder, Decoder and Transformer.
#include <utility>

#include "layer.h"
#include "layer_configs.h"
#include "qkv/layers/transformer.h"

namespace qkv::python {
namespace {

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

double operations_of(const LayerCall& call) {
  return 6 * layer_operations(call.sequences(0), call.input(0).rank() > 0 ? call.input(0).size(-1) : 0);
}

nb::object encode(nb::handle self, nb::handle x, const nb::kwargs& given) {
  using Call = CallOf<MultiHeadAttentionOptions, EncoderSaved>;
  auto& core = core_of<Encoder>(self);
  const auto call = call_of<Call>({{x, "x"}});
  Keywords keywords("Encoder", given);
  keywords.read("mask", call->options.mask);
  keywords.read("bias", call->options.bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  call->finish_with_dropout(keywords);
  call->options.threads = call->threads;
  return run_layer(
      self, call, operations_of(*call),
      [&](Call& c) {
        return list_of(c.save ? core.forward(c.sequences(0), c.options, c.dropout, c.saved)
                              : core.forward(c.sequences(0), c.options));
      },
      [&core](Call& c, const std::vector<TensorView>& grad_out) {
        return list_of(core.backward(c.sequences(0), c.options, c.dropout, c.saved, grad_out[0]));
      });
}

nb::object decode(nb::handle self, nb::handle x, nb::handle memory, const nb::kwargs& given) {
  using Call = CallOf<DecoderLayerOptions, DecoderSaved>;
  auto& core = core_of<Decoder>(self);
  const auto call = call_of<Call>({{x, "x"}, {memory, "memory"}});
  Keywords keywords("Decoder", given);
  keywords.read("mask", call->options.self_mask);
  keywords.read("bias", call->options.self_bias);
  keywords.read("memory_mask", call->options.memory_mask);
  keywords.read("memory_bias", call->options.memory_bias);
  keywords.read_offsets("offsets", call->offsets[0]);
  keywords.read_offsets("memory_offsets", call->offsets[1]);
  call->finish_with_dropout(keywords);
  call->options.threads = call->threads;
  return run_layer(
      self, call, operations_of(*call),
      [&](Call& c) {
        const Sequences rows = c.sequences(0), keys = c.sequences(1);
        return list_of(c.save ? core.forward(rows, keys, c.options, c.dropout, c.saved)
                              : core.forward(rows, keys, c.options));
      },
      [&core](Call& c, const std::vector<TensorView>& grad_out) {
        Tensor grad_memory = Tensor::zeros(c.input(1).shape(), c.input(1).dtype());
        Tensor grad_x =
            core.backward(c.sequences(0), c.sequences(1), c.options, c.dropout, c.saved, grad_out[0], grad_memory);
        return list_of(std::move(grad_x), std::move(grad_memory));
      });
}

nb::object transform(nb::handle self, nb::handle source, nb::handle target, const nb::kwargs& given) {
  using Call = CallOf<TransformerOptions, TransformerSaved>;
  auto& core = core_of<Transformer>(self);
  const auto call = call_of<Call>({{source, "source"}, {target, "target"}});
  Keywords keywords("Transformer", given);
  keywords.read("source_mask", call->options.source_mask);
  keywords.read("source_bias", call->options.source_bias);
  keywords.read("target_mask", call->options.target_mask);
  keywords.read("target_bias", call->options.target_bias);
  keywords.read("memory_mask", call->options.memory_mask);
  keywords.read("memory_bias", call->options.memory_bias);
  keywords.read_offsets("source_offsets", call->offsets[0]);
  keywords.read_offsets("target_offsets", call->offsets[1]);
  call->finish_with_dropout(keywords);
  call->options.threads = call->threads;
  return run_layer(
      self, call, operations_of(*call),
      [&](Call& c) {
        const Sequences from = c.sequences(0), to = c.sequences(1);
        return list_of(c.save ? core.forward(from, to, c.options, c.dropout, c.saved)
                              : core.forward(from, to, c.options));
      },
      [&core](Call& c, const std::vector<TensorView>& grad_out) {
        TransformerGradients found =
            core.backward(c.sequences(0), c.sequences(1), c.options, c.dropout, c.saved, grad_out[0]);
        return list_of(std::move(found.source), std::move(found.target));
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
