// Transformer: an encoder and a decoder, forward and backward.
#include "qkv/layers/transformer.h"

#include "layers/basic/scoped_observer.h"
#include "layers/stack/layer_parts.h"

namespace qkv {
namespace {

constexpr std::uint32_t kEncoderSite = 0, kDecoderSite = 1;

StackConfig stack_config(const TransformerConfig& config, std::int64_t layers) {
  return {.layer = config.layer, .layers = layers, .final_norm = config.final_norms};
}

MultiHeadAttentionOptions encoder_options(const TransformerOptions& options) {
  return {.mask = options.source_mask, .bias = options.source_bias, .threads = options.threads, .stop = options.stop};
}

DecoderLayerOptions decoder_options(const TransformerOptions& options) {
  return {.self_mask = options.target_mask,
          .self_bias = options.target_bias,
          .memory_mask = options.memory_mask,
          .memory_bias = options.memory_bias,
          .threads = options.threads,
          .stop = options.stop};
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, Weights& weights, const std::string& scope)
    : encoder_(stack_config(config, config.encoder_layers), weights, scope + "encoder."),
      decoder_(stack_config(config, config.decoder_layers), weights, scope + "decoder.") {}

Tensor Transformer::forward(const Sequences& source, const Sequences& target, const TransformerOptions& options,
                            Observer* observer) const {
  const Tensor memory = observed(observer, "encoder.", [&](Observer* scoped) {
    return encoder_.forward(source, encoder_options(options), scoped);
  });
  return observed(observer, "decoder.", [&](Observer* scoped) {
    return decoder_.forward(target, with_rows(source, memory), decoder_options(options), scoped);
  });
}

Tensor Transformer::forward(const Sequences& source, const Sequences& target, const TransformerOptions& options,
                            const Dropout& dropout, TransformerSaved& saved) const {
  saved.memory = encoder_.forward(source, encoder_options(options), dropout_at(dropout, kEncoderSite), saved.encoder);
  return decoder_.forward(target, with_rows(source, saved.memory), decoder_options(options),
                          dropout_at(dropout, kDecoderSite), saved.decoder);
}

TransformerGradients Transformer::backward(const Sequences& source, const Sequences& target,
                                           const TransformerOptions& options, const Dropout& dropout,
                                           const TransformerSaved& saved, const TensorView& grad_out) {
  Tensor grad_memory = Tensor::zeros(saved.memory.shape(), saved.memory.dtype());
  Tensor grad_target = decoder_.backward(target, with_rows(source, saved.memory), decoder_options(options),
                                         dropout_at(dropout, kDecoderSite), saved.decoder, grad_out, grad_memory);
  Tensor grad_source = encoder_.backward(source, encoder_options(options), dropout_at(dropout, kEncoderSite),
                                         saved.encoder, grad_memory);
  return {.source = std::move(grad_source), .target = std::move(grad_target)};
}

void Transformer::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(encoder_, scope + "encoder.");
  walk(decoder_, scope + "decoder.");
}

}  // namespace qkv
