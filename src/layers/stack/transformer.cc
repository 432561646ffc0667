// Encoder, Decoder and Transformer: forward and backward through stacks of layers, and token by token.
#include "qkv/layers/transformer.h"

#include "layers/basic/layer_dropout.h"
#include "layers/stack/stack.h"
#include "layers/stack/transformer_layer.h"

namespace qkv {
namespace {

constexpr std::uint32_t kEncoderSite = 0, kDecoderSite = 1;

Dropout of_layer(const Dropout& dropout, std::size_t layer) {
  return dropout_at(dropout, static_cast<std::uint32_t>(layer));
}

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

std::optional<LayerNorm> make_norm(const StackConfig& config, Weights& weights, const std::string& scope) {
  if (!config.final_norm) return {};
  return LayerNorm(norm_config(config.layer), weights, scope + "norm.");
}

Encoder::Encoder(const StackConfig& config, Weights& weights, const std::string& scope)
    : layers_(make_layers<EncoderLayer>(config, weights, scope)), norm_(make_norm(config, weights, scope)) {}

Tensor Encoder::forward(const Sequences& x, const MultiHeadAttentionOptions& options, Observer* observer) const {
  return stack_forward(layers_, norm_, x.rows, options.threads, observer,
                       [&](const EncoderLayer& layer, const TensorView& input, Observer* scoped) {
                         return layer.forward(with_rows(x, input), options, scoped);
                       });
}

Tensor Encoder::forward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                        EncoderSaved& saved) const {
  return stack_forward(
      layers_, norm_, x.rows, options.threads, saved,
      [&](const EncoderLayer& layer, std::size_t i, const TensorView& input, EncoderLayerSaved& layer_saved) {
        return layer.forward(with_rows(x, input), options, of_layer(dropout, i), layer_saved);
      });
}

Tensor Encoder::backward(const Sequences& x, const MultiHeadAttentionOptions& options, const Dropout& dropout,
                         const EncoderSaved& saved, const TensorView& grad_out) {
  return stack_backward(layers_, norm_, x.rows, options.threads, saved, grad_out,
                        [&](EncoderLayer& layer, std::size_t i, const TensorView& input,
                            const EncoderLayerSaved& layer_saved, const Tensor& gradient) {
                          return layer.backward(with_rows(x, input), options, of_layer(dropout, i), layer_saved,
                                                gradient);
                        });
}

void Encoder::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visit_stack(layers_, norm_, visitor, scope);
}

void Encoder::update(const ParameterUpdater& updater, const std::string& scope) {
  update_stack(layers_, norm_, updater, scope);
}

Decoder::Decoder(const StackConfig& config, Weights& weights, const std::string& scope)
    : layers_(make_layers<DecoderLayer>(config, weights, scope)), norm_(make_norm(config, weights, scope)) {}

Tensor Decoder::forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                        Observer* observer) const {
  return stack_forward(layers_, norm_, x.rows, options.threads, observer,
                       [&](const DecoderLayer& layer, const TensorView& input, Observer* scoped) {
                         return layer.forward(with_rows(x, input), memory, options, scoped);
                       });
}

Tensor Decoder::forward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                        const Dropout& dropout, DecoderSaved& saved) const {
  return stack_forward(
      layers_, norm_, x.rows, options.threads, saved,
      [&](const DecoderLayer& layer, std::size_t i, const TensorView& input, DecoderLayerSaved& layer_saved) {
        return layer.forward(with_rows(x, input), memory, options, of_layer(dropout, i), layer_saved);
      });
}

Tensor Decoder::backward(const Sequences& x, const Sequences& memory, const DecoderLayerOptions& options,
                         const Dropout& dropout, const DecoderSaved& saved, const TensorView& grad_out,
                         const MutableTensorView& grad_memory) {
  return stack_backward(layers_, norm_, x.rows, options.threads, saved, grad_out,
                        [&](DecoderLayer& layer, std::size_t i, const TensorView& input,
                            const DecoderLayerSaved& layer_saved, const Tensor& gradient) {
                          return layer.backward(with_rows(x, input), memory, options, of_layer(dropout, i), layer_saved,
                                                gradient, grad_memory);
                        });
}

void Decoder::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visit_stack(layers_, norm_, visitor, scope);
}

void Decoder::update(const ParameterUpdater& updater, const std::string& scope) {
  update_stack(layers_, norm_, updater, scope);
}

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

void Transformer::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  encoder_.visit(visitor, scope + "encoder.");
  decoder_.visit(visitor, scope + "decoder.");
}

void Transformer::update(const ParameterUpdater& updater, const std::string& scope) {
  encoder_.update(updater, scope + "encoder.");
  decoder_.update(updater, scope + "decoder.");
}

DecoderCache Decoder::make_cache(const Sequences& memory, int threads) const {
  DecoderCache cache;
  for (const DecoderLayer& layer : layers_) cache.layers.push_back(layer.make_cache(memory, threads));
  return cache;
}

Tensor Decoder::forward(const TensorView& x, DecoderCache& cache, int threads) const {
  Tensor rows;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    rows = layers_[i].forward(i == 0 ? x : rows.view(), cache.layers[i], threads);
  }
  return norm_ ? norm_->forward(rows, {}, threads) : std::move(rows);
}

void DecoderCache::reorder(std::span<const std::int64_t> parents) {
  for (DecoderLayerCache& layer : layers) {
    layer.self.reorder(parents);
    layer.memory.reorder(parents);
  }
}

}  // namespace qkv
